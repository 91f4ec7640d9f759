"""Numerical operations, one folder each: a public function that checks and dispatches, a reference, fast versions."""
