"""What no input may become without a word: checks of the datasets that `afgrl check` describes."""

import contextlib
import re
from collections.abc import Iterator
from unittest import mock

from afgrl.data import describe
from afgrl.data.dataset import Dataset
from afgrl.graph import as_text


@contextlib.contextmanager
def described() -> Iterator[list[Dataset]]:
    """The datasets that are described in this context."""
    seen: list[Dataset] = []
    original = describe.describe_dataset

    def describe_dataset(dataset):
        seen.append(dataset)
        return original(dataset)

    with mock.patch.object(describe, "describe_dataset", describe_dataset):
        yield seen


def unsound(datasets: list[Dataset]) -> str:
    """What is wrong with the ids of a dataset; empty if nothing is."""
    for dataset in datasets:
        for name in as_text(dataset.graph.ids):
            if not name.strip():
                return f"wrong: the id {name!r}"
            if re.match(r"\[['\"\d]", name):
                return f"wrong: the id {name!r}, which was a row of an array"
    return ""
