"""The public benchmark graphs."""

from afgrl.data.benchmarks.loading import load_benchmark
from afgrl.data.benchmarks.registry import BENCHMARKS, Benchmark, Counts

__all__ = ["BENCHMARKS", "Benchmark", "Counts", "load_benchmark"]
