"""Text columns embedded by a local sentence-transformers model."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import io
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import pyarrow as pa
import scipy.sparse as sp

from afgrl.data.ingest import IngestReport
from afgrl.data.tables.cells import to_text
from afgrl.data.tables.column_encoders import VectorColumn
from afgrl.data.unpacking import short_reason
from afgrl.errors import UserError


@dataclass(frozen=True)
class TextModelColumn(VectorColumn):
    """Text that a model turns into vectors; each position is standardized. A missing cell is all zeros, the mean.

    The model stays in its folder. The fingerprint tells whether it is still the one that the features were made with.
    """

    kind: ClassVar[str] = "text-model"
    folder: str
    fingerprint: str

    @classmethod
    def fit_text(cls, name: str, column: pa.ChunkedArray, folder: str, report: IngestReport, where: str) -> Self:
        fingerprint = model_fingerprint(folder)
        mean, scale = cls.moments(_embed(column, folder, fingerprint))
        report.info(
            f"The text column {name!r} of {where} is embedded in {len(mean)} features by the model in {folder}."
        )
        return cls(name, mean, scale, folder, fingerprint)

    def encode(self, column: pa.ChunkedArray) -> sp.csr_array:
        if not Path(self.folder).is_dir():
            raise UserError(
                f"The text column {self.name!r} was embedded by the model in {self.folder}, and that folder was not "
                "found; put the model back to embed new nodes."
            )
        if model_fingerprint(self.folder) != self.fingerprint:
            raise UserError(
                f"The model in {self.folder} is not the one that embedded the text column {self.name!r} in training: "
                "its files have changed."
            )
        return self.standardized(_embed(column, self.folder, self.fingerprint))


def model_fingerprint(folder: str) -> str:
    """A hash of the files of the model, except for hidden files and documents."""
    if not Path(folder).is_dir():
        raise UserError(f"--text-model takes the folder of a sentence-transformers model; {folder} is not a folder.")
    digest = hashlib.blake2b(digest_size=16)
    for file in sorted(Path(folder).rglob("*")):
        name = file.relative_to(folder).as_posix()
        if file.is_file() and not name.startswith(".") and file.suffix != ".md":
            with file.open("rb") as stream:
                content = hashlib.file_digest(stream, "blake2b").digest()
            digest.update(name.encode() + b"\0" + content)
    return digest.hexdigest()


def _embed(column: pa.ChunkedArray, folder: str, fingerprint: str) -> np.ndarray:
    """[rows, d] float64; NaN for missing cells."""
    model = _load_model(folder, fingerprint)
    filled = column.is_valid().to_numpy()
    cells = to_text(column).drop_null().to_pylist()
    vectors = model.encode(cells or [""], show_progress_bar=False)  # without cells, for their width
    rows = np.full((len(column), vectors.shape[1]), np.nan)
    rows[filled] = vectors[: len(cells)]
    return rows


@functools.lru_cache(maxsize=1)  # for the other text columns of a table
def _load_model(folder: str, fingerprint: str) -> Any:
    """The model, never downloaded; ``fingerprint`` makes sure that a changed one is loaded again."""
    try:
        from sentence_transformers import SentenceTransformer
    except ImportError:
        raise UserError("--text-model needs sentence-transformers: pip install 'afgrl[text]'.") from None
    try:
        with contextlib.redirect_stderr(io.StringIO()):  # a progress bar of its own
            return SentenceTransformer(folder, local_files_only=True)
    except MemoryError:
        raise
    except Exception as error:  # the packages that read a model raise many types
        raise UserError(f"The model in {folder} cannot be loaded: {short_reason(error)}.") from None
