"""The subjects of a run folder, of which ``Run`` consists."""
