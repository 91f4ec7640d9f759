"""Tables in memory and in files."""

import gc
import os
from pathlib import Path

import pytest
import torch
from torch.nn import functional as F

from afgrl.ops import storage
from afgrl.ops.collectives import Shards
from afgrl.ops.kmeans import run_kmeans
from afgrl.ops.knn.clusters import in_leading_directions, nearest_in_clusters
from afgrl.ops.pair_loss import pull_of
from afgrl.ops.storage import empty_rows, filled_rows, row_blocks, tables_in_files, unit_table

CPU = torch.device("cpu")
MAPS = Path("/proc/self/maps")


@pytest.fixture
def small(monkeypatch):
    """Every table is worth a file, and blocks are short."""
    monkeypatch.setattr(storage, "SMALLEST", 1)
    monkeypatch.setattr(storage, "BLOCK_ROWS", 30)


def mapped_files(folder):
    """Files of this folder that the process has mapped, with or without a name."""
    return {line.split(maxsplit=5)[5] for line in MAPS.read_text().splitlines() if str(folder) in line}


@pytest.mark.skipif(not MAPS.exists(), reason="needs /proc")
def test_a_file_has_no_name_and_ends_with_its_table(small, tmp_path):
    in_memory = empty_rows(1000, 3, CPU)
    assert in_memory.shape == (1000, 3)
    assert not mapped_files(tmp_path)
    with tables_in_files(tmp_path):
        table = empty_rows(1000, 3, CPU)
    assert len(mapped_files(tmp_path)) == 1
    assert not list(tmp_path.iterdir())
    table.fill_(7.0)
    view = table[5:9]
    del table
    gc.collect()
    assert (view == 7).all()
    del view
    gc.collect()
    assert not mapped_files(tmp_path)


def test_a_full_disk_is_an_error(small, tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    with tables_in_files(tmp_path), pytest.raises(OSError, match="No space left"):
        empty_rows(10, 3, CPU)
    assert not list(tmp_path.iterdir())


def test_blocks_of_rows(small):
    assert list(row_blocks(70, CPU)) == [slice(0, 30), slice(30, 60), slice(60, 70)]
    assert list(row_blocks(70, torch.device("cuda"))) == [slice(0, 70)]
    x = torch.arange(140.0).view(70, 2)
    assert torch.equal(filled_rows(70, 2, CPU, lambda rows: 2 * x[rows]), 2 * x)
    assert torch.equal(unit_table(x), F.normalize(x))


def results(x, t):
    """What operations on large graphs compute."""
    labels = run_kmeans(t, 4, unit=True, n_iters=3, rows=torch.tensor([[0, 20, 40, 60]])).labels[0]
    centers = torch.stack([t[labels == cluster].mean(0) for cluster in range(4)])
    nearest = nearest_in_clusters(x, t, 3, labels, centers, diagonal="first", probes=2)
    src, dst = torch.arange(90).repeat_interleave(3), nearest.index.flatten()
    narrow = in_leading_directions(x, t, centers)
    return [labels, nearest.index, nearest.similarity, pull_of(t, src, dst, src >= 0, Shards(90)).rows, *narrow]


def test_operations_give_the_same_bits_in_files(monkeypatch, tmp_path):
    rng = torch.Generator().manual_seed(0)
    x, t = torch.randn(90, 140, generator=rng), torch.randn(90, 140, generator=rng)
    expected = results(x, t)
    monkeypatch.setattr(storage, "SMALLEST", 1)
    monkeypatch.setattr(storage, "BLOCK_ROWS", 30)
    with tables_in_files(tmp_path):
        found = results(x, t)
    for ours, theirs in zip(found, expected, strict=True):
        assert torch.equal(ours, theirs)
