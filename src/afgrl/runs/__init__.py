"""The run folder: its spec, its files, its dataset and its environment."""
