"""Measures of vectors and clusters that need no labels; each is a plain function, explained in docs/quality.md."""
