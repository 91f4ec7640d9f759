"""Questions to a run: similar nodes, clusters, 2-D projection, vectors of new nodes."""
