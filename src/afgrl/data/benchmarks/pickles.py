"""Planetoid's raw files are pickles, which could run any code: only arrays, sparse matrices and lists are allowed."""

from __future__ import annotations

import io
import pickle
from pathlib import Path
from typing import Any

import scipy.sparse as sp

from afgrl.errors import UserError

# Names as Python 2 and 3, and old and new versions of NumPy and SciPy write them.
ALLOWED = {
    ("numpy", "ndarray"), ("numpy", "dtype"),
    ("numpy.core.multiarray", "_reconstruct"), ("numpy._core.multiarray", "_reconstruct"),
    ("numpy._core.numeric", "_frombuffer"),
    ("scipy.sparse.csr", "csr_matrix"), ("scipy.sparse._csr", "csr_matrix"),
    ("collections", "defaultdict"), ("__builtin__", "list"), ("builtins", "list"),
}  # fmt: skip


class _Restricted(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in ALLOWED:
            raise UserError(f"it contains {module}.{name}, which could run code")
        return super().find_class(module, name)


def check_pickle(path: Path) -> None:
    """Raise an error for a pickle that runs code, is damaged, or whose sparse matrix has indices out of bounds.

    A pickle that this accepts loads only the names above, so ``pickle.load`` of the same bytes is safe.
    """
    found = _Restricted(io.BytesIO(path.read_bytes()), encoding="latin1").load()
    if isinstance(found, sp.csr_matrix):
        found.check_format(full_check=True)
