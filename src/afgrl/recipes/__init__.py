"""Recipes: one TOML file per method, with one table per recipe and a subtable per dataset."""
