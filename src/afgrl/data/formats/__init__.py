"""Files that contain a whole graph, and arrays of features."""
