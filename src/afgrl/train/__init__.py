"""Training: the state that changes, the loop that changes it, and what watches the loop."""
