"""Node embeddings from a graph with features and no labels: no augmentation, no negatives."""

__version__ = "0.1.0"
