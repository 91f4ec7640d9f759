"""Memory and time of training, before it starts."""
