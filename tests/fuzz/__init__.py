"""A seeded mutation fuzzer over every input format; see ``__main__`` for how to run it."""
