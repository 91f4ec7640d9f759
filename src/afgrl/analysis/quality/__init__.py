"""The quality panel: what is known about the vectors of a run without labels."""
