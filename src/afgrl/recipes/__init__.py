"""One TOML file a method: a table a recipe, and within it a table a dataset."""
