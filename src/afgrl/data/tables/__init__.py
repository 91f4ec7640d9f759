"""A user's tables of nodes and edges: read them, find the columns, encode them as features."""
