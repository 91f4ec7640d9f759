"""An approximate nearest-neighbor index of a run's vectors, for graphs on which the exact search is slow."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from pydantic import TypeAdapter
from torch import Tensor
from torch.nn import functional as F

from afgrl.errors import UserError
from afgrl.ops.knn import Neighbors
from afgrl.ops.knn.blocks import nearest_in_blocks
from afgrl.runs.files import replace_file, write_json
from afgrl.runs.folder import Run
from afgrl.runs.lock import writes_run
from afgrl.runs.readers import check, read_json, reading

# HNSW answers fastest, but adding a row takes longer the more rows there are: 38 s for 120,000 rows of width 256 on one
# core. Above this number of rows, an inverted file (IVF) is built instead.
MAX_HNSW_ROWS = 250_000
HNSW_LINKS = 32  # links per row (faiss: M)
HNSW_CANDIDATES = 100  # rows among which the links of a new row are chosen (faiss: efConstruction)
IVF_ROWS = 64  # per list, from which the centers of the lists are computed
N_QUERIES, N_NEIGHBORS = 1_000, 10  # recall is measured with these
# Rows that a search compares at least (HNSW: efSearch), or lists that it searches (IVF: nprobe).
SEARCH_EFFORTS = (16, 32, 64, 128, 256, 512)
TARGET_RECALL = 0.99
ROUNDING = 1e-6  # difference of one cosine that is summed in two orders


@dataclass(frozen=True)
class IndexDescription:
    """The contents of index.json."""

    kind: Literal["hnsw", "ivf"]
    parameters: dict[str, int]  # as faiss names them: M, efConstruction, efSearch; or nlist, nprobe
    recall: float  # share of the ten nearest rows that a search finds
    n_queries: int  # rows on which the recall was measured
    vectors_fingerprint: str
    file_checksum: str = ""  # of index.faiss


@dataclass(frozen=True, eq=False)
class Index:
    """Finds nearly all nearest rows by cosine; ``description.recall`` is the measured share."""

    faiss_index: Any
    description: IndexDescription

    @property
    def n(self) -> int:
        """Rows that it contains."""
        return int(self.faiss_index.ntotal)

    def nearest(self, query: Tensor, k: int) -> Neighbors:
        """Like ``nearest_neighbors``; the index is -1 where fewer than ``k`` rows are found."""
        rows = F.normalize(query).numpy()
        similarity, index = self.faiss_index.search(rows, k, params=self._search_parameters(k))
        return Neighbors(torch.from_numpy(index), torch.from_numpy(similarity))

    def _search_parameters(self, k: int) -> Any:
        faiss, parameters = _import_faiss(), self.description.parameters
        if self.description.kind == "hnsw":
            return faiss.SearchParametersHNSW(efSearch=max(parameters["efSearch"], 2 * k))
        nlist = parameters["nlist"]
        enough = -(-10 * k * nlist // self.faiss_index.ntotal)  # lists that contain ten times k rows on average
        return faiss.SearchParametersIVF(nprobe=min(nlist, max(parameters["nprobe"], enough)))


def open_index(run: Run) -> Index:
    """The index of a run, built now if it has none; an index of other vectors than those of the run is refused."""
    if not run.index_description_file.is_file():
        return build_index(run)
    faiss = _import_faiss()
    description = _read_description(run)
    with reading(run.index_file):
        same = _file_checksum(run.index_file) == description.file_checksum
        check(same, "it is not the file that index.json describes")
        mapped = description.kind == "ivf" and sys.platform != "win32"  # a search reads a few lists of the file
        faiss_index = faiss.read_index(str(run.index_file), faiss.IO_FLAG_MMAP if mapped else 0)  # may crash if damaged
        n_lists = description.parameters.get("nlist")
        check(n_lists in (None, getattr(faiss_index, "nlist", None)), f"it does not have {n_lists} lists")
    fingerprint, shape = run.vectors_fingerprint(), run.embedding_shape
    if description.vectors_fingerprint != fingerprint or (faiss_index.ntotal, faiss_index.d) != shape:
        advice = f"delete {str(run.index_description_file)!r} to build it again"
        raise UserError(f"The index of the run {str(run.path)!r} belongs to other vectors; {advice}.")
    return Index(faiss_index, description)


def _read_description(run: Run) -> IndexDescription:
    with reading(run.index_description_file):
        description = IndexDescription(**read_json(run.index_description_file))
        TypeAdapter(IndexDescription).validate_python(asdict(description), strict=False)
        effort = description.parameters["efSearch" if description.kind == "hnsw" else "nprobe"]
        check(effort in SEARCH_EFFORTS, f"its search effort is {effort}")
        check(0 <= description.recall <= 1, f"its recall is {description.recall}")
        return description


@writes_run
def build_index(run: Run) -> Index:
    """Index the vectors of a run, measure the recall, and save both in the run. One group of vectors is in memory at a
    time, besides the index."""
    faiss = _import_faiss()
    fingerprint, (n, width) = run.vectors_fingerprint(), run.embedding_shape
    order = np.random.default_rng(0).permutation(n)
    faiss_index, kind, parameters = _new_hnsw(faiss, width) if n <= MAX_HNSW_ROWS else _new_ivf(faiss, n, width)
    if kind == "ivf":
        faiss_index.train(_unit(run.embedding_rows(order[: IVF_ROWS * parameters["nlist"]])))
    for group in run.embedding_groups():
        faiss_index.add(_unit(group))
    description = IndexDescription(kind, parameters, 0.0, min(n, N_QUERIES), fingerprint)
    index = _with_enough_effort(Index(faiss_index, description), run, np.sort(order[:N_QUERIES]))
    replace_file(run.index_file, lambda path: _save_index(faiss, path, faiss_index))
    description = replace(index.description, file_checksum=_file_checksum(run.index_file))
    write_json(run.index_description_file, asdict(description))
    return Index(faiss_index, description)


def _new_hnsw(faiss: Any, width: int) -> tuple[Any, Literal["hnsw", "ivf"], dict[str, int]]:
    faiss_index = faiss.IndexHNSWFlat(width, HNSW_LINKS, faiss.METRIC_INNER_PRODUCT)
    faiss_index.hnsw.efConstruction = HNSW_CANDIDATES
    return faiss_index, "hnsw", {"M": HNSW_LINKS, "efConstruction": HNSW_CANDIDATES, "efSearch": SEARCH_EFFORTS[0]}


def _new_ivf(faiss: Any, n: int, width: int) -> tuple[Any, Literal["hnsw", "ivf"], dict[str, int]]:
    nlist = min(n, round(2 * n**0.5))
    faiss_index = faiss.IndexIVFFlat(faiss.IndexFlatIP(width), width, nlist, faiss.METRIC_INNER_PRODUCT)
    faiss_index.cp.min_points_per_centroid = 1  # no warning about few rows per list
    return faiss_index, "ivf", {"nlist": nlist, "nprobe": SEARCH_EFFORTS[0]}


def _unit(rows: np.ndarray) -> np.ndarray:
    return F.normalize(torch.tensor(rows)).numpy()


def as_tensors(groups: Iterable[np.ndarray]) -> Iterator[Tensor]:
    """Groups of stored vectors, which are read-only, as tensors."""
    return (torch.tensor(group) for group in groups)


def _with_enough_effort(index: Index, run: Run, sample: np.ndarray) -> Index:
    """The index with the smallest search effort that reaches the target recall on these rows, or with the largest."""
    query = torch.from_numpy(run.embedding_rows(sample))
    k = min(N_NEIGHBORS + 1, index.n)  # one more, because each query finds itself
    worst_exact = nearest_in_blocks(query, as_tensors(run.embedding_groups()), k).similarity[:, -1:] - ROUNDING
    name = "efSearch" if index.description.kind == "hnsw" else "nprobe"
    for effort in SEARCH_EFFORTS:
        description = replace(index.description, parameters=index.description.parameters | {name: effort})
        similarity = Index(index.faiss_index, description).nearest(query, k).similarity[:, 1:]
        recall = float((similarity >= worst_exact).double().mean()) if k > 1 else 1.0
        description = replace(description, recall=round(recall, 4))
        if recall >= TARGET_RECALL:
            break
    return Index(index.faiss_index, description)


def _file_checksum(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16)).hexdigest()


def _save_index(faiss: Any, path: Path, faiss_index: Any) -> None:
    with open(path, "wb") as file:  # given a name, faiss would report a full disk as a RuntimeError
        faiss.write_index(faiss_index, faiss.PyCallbackIOWriter(file.write))


def _import_faiss() -> Any:
    try:
        import faiss
    except ImportError:
        raise UserError("An index needs faiss: pip install 'afgrl[index]'.") from None
    faiss.omp_set_num_threads(torch.get_num_threads())  # with all cores of a large machine it is very slow
    return faiss
