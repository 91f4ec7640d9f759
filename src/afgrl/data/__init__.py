"""Datasets: from a name, from files, or from objects of other libraries."""

from afgrl.data.benchmarks.cache import cache_folder
from afgrl.data.dataset import Dataset
from afgrl.data.sources import catalog, load, names
from afgrl.data.splits import Splits, random_splits

__all__ = ["Dataset", "Splits", "cache_folder", "catalog", "load", "names", "random_splits"]
