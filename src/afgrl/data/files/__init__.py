"""A user's own files: tables of nodes and edges, or a graph in one file."""
