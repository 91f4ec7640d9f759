"""RunSpec → Run: the one composition of data, method, training and evaluation."""
