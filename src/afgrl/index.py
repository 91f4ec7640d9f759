"""An approximate index of a run's vectors, for graphs so large that an exact search is felt."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from afgrl.errors import UserError
from afgrl.ops import Neighbors, knn
from afgrl.runs import Run
from afgrl.writing import replace_file

# A graph of links answers soonest, but to add a row takes longer the more there are: 38 s for 120,000 rows of width 256
# on one core. Above this many rows, lists of rows that are near each other are made instead.
MOST_LINKED = 250_000
LINKS = 32  # of a row in the graph
LOOKED_AT = 100  # rows among which its links are chosen
QUERIES, NEIGHBORS = 1_000, 10  # that recall is measured with
BREADTHS = (16, 32, 64, 128, 256, 512)  # rows kept in view by a search, or lists looked through
WANTED_RECALL = 0.99
SAME = 1e-6  # of two cosines, each summed in its own order


@dataclass(frozen=True)
class Description:
    """What index.json holds."""

    kind: Literal["hnsw", "ivf"]
    parameters: dict[str, int]  # "breadth" is that of a search
    recall: float  # share of the ten nearest that a search finds
    queries: int  # on which that was measured
    vectors: str  # fingerprint of what it was built from
    checksum: str = ""  # of index.faiss


@dataclass(frozen=True, eq=False)
class Index:
    """Nearest rows by cosine, nearly all of them; ``description.recall`` says how nearly."""

    engine: Any  # faiss's
    description: Description

    def nearest(self, query: Tensor, k: int) -> Neighbors:
        """As ``ops.knn`` finds them; an index of -1 where none was found."""
        rows = F.normalize(query).numpy()
        similarity, index = self.engine.search(rows, k, params=self._breadth(k))
        return Neighbors(torch.from_numpy(index), torch.from_numpy(similarity))

    def _breadth(self, k: int) -> Any:
        faiss = _faiss()
        breadth = self.description.parameters["breadth"]
        if self.description.kind == "hnsw":
            return faiss.SearchParametersHNSW(efSearch=max(breadth, 2 * k))
        lists = self.description.parameters["lists"]
        enough = -(-10 * k * lists // self.engine.ntotal)  # as many lists as hold ten times the rows asked for
        return faiss.SearchParametersIVF(nprobe=min(lists, max(breadth, enough)))


def open_index(run: Run, vectors: np.ndarray) -> Index:
    """The index of a run, built now if there is none; one that does not fit the run's ``vectors`` is refused."""
    if not run.index_description_file.is_file():
        return build(run)
    faiss = _faiss()
    anew = f"delete {str(run.index_description_file)!r} and it is built anew"
    try:
        description = Description(**json.loads(run.index_description_file.read_text(encoding="utf-8")))
        whole = _checksum(run.index_file) == description.checksum
        engine = faiss.read_index(str(run.index_file)) if whole else None  # it may crash on a damaged file
    except (OSError, ValueError, TypeError, RuntimeError):
        engine = None
    if engine is None:
        raise UserError(f"The index of the run {str(run.path)!r} is damaged; {anew}.")
    if description.vectors != fingerprint(vectors) or (engine.ntotal, engine.d) != vectors.shape:
        raise UserError(f"The index of the run {str(run.path)!r} is of other vectors than it has now; {anew}.")
    return Index(engine, description)


def build(run: Run) -> Index:
    """Index a run's vectors, measure how well that finds them, and keep both in the run."""
    faiss = _faiss()
    _, vectors = run.embedding()
    x = F.normalize(torch.from_numpy(vectors))
    engine, kind, parameters = _linked(faiss, x) if len(x) <= MOST_LINKED else _listed(faiss, x)
    sample = torch.randperm(len(x), generator=torch.Generator().manual_seed(0))[:QUERIES]
    description = Description(kind, parameters, 0.0, len(sample), fingerprint(vectors))
    index = _broad_enough(Index(engine, description), x, x[sample])
    replace_file(run.index_file, lambda path: faiss.write_index(engine, str(path)))
    kept = replace(index.description, checksum=_checksum(run.index_file))
    text = json.dumps(asdict(kept), indent=1) + "\n"
    replace_file(run.index_description_file, lambda path: path.write_text(text, encoding="utf-8"))
    return Index(engine, kept)


def _linked(faiss: Any, x: Tensor) -> tuple[Any, Literal["hnsw"], dict[str, int]]:
    engine = faiss.IndexHNSWFlat(x.shape[1], LINKS, faiss.METRIC_INNER_PRODUCT)
    engine.hnsw.efConstruction = LOOKED_AT
    engine.add(x.numpy())
    return engine, "hnsw", {"links": LINKS, "looked_at": LOOKED_AT, "breadth": BREADTHS[0]}


def _listed(faiss: Any, x: Tensor) -> tuple[Any, Literal["ivf"], dict[str, int]]:
    lists = min(len(x), round(2 * len(x) ** 0.5))
    engine = faiss.IndexIVFFlat(faiss.IndexFlatIP(x.shape[1]), x.shape[1], lists, faiss.METRIC_INNER_PRODUCT)
    engine.cp.min_points_per_centroid = 1  # fewer than it likes are no reason to warn
    engine.cp.max_points_per_centroid = 64
    engine.train(x.numpy())
    engine.add(x.numpy())
    return engine, "ivf", {"lists": lists, "breadth": BREADTHS[0]}


def _broad_enough(index: Index, x: Tensor, query: Tensor) -> Index:
    """With the least breadth that finds enough, or the greatest."""
    k = min(NEIGHBORS + 1, len(x))  # one more, for the row itself
    least = knn(query, x, k).similarity[:, -1:] - SAME
    for breadth in BREADTHS:
        parameters = index.description.parameters | {"breadth": breadth}
        tried = replace(index, description=replace(index.description, parameters=parameters))
        found = tried.nearest(query, k).similarity[:, 1:]
        recall = float((found >= least).double().mean()) if k > 1 else 1.0
        tried = replace(tried, description=replace(tried.description, recall=round(recall, 4)))
        if recall >= WANTED_RECALL:
            break
    return tried


def fingerprint(vectors: np.ndarray) -> str:
    """Another table of vectors has another one."""
    digest = hashlib.blake2b(repr((vectors.shape, vectors.dtype.str)).encode(), digest_size=16)
    digest.update(np.ascontiguousarray(vectors).data)
    return digest.hexdigest()


def _checksum(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16)).hexdigest()


def _faiss() -> Any:
    try:
        import faiss
    except ImportError:
        raise UserError("An index needs faiss: pip install 'afgrl[index]'.") from None
    faiss.omp_set_num_threads(torch.get_num_threads())  # with all cores of a large machine it crawls
    return faiss
