"""The tables and figures of the paper beside ours, from a grid of cached runs."""
