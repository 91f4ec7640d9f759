"""Arrays in .npy and .npz files."""

from __future__ import annotations

import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from afgrl.data.unpacking import check_zip_size, file_suffix, short_reason
from afgrl.errors import UserError

SCIPY_ARRAYS = {"format", "shape", "data"}  # in a file of scipy.sparse.save_npz
READ_ERRORS = (ValueError, OSError, EOFError, KeyError, zipfile.BadZipFile, zlib.error)  # for damaged files


def load_features(path: Path) -> Any:
    """[n, f], a NumPy array or a SciPy sparse matrix."""
    if not path.is_file():
        raise UserError(f"File not found: {path}.")
    try:
        if file_suffix(path) == ".npy":
            features = np.load(path, allow_pickle=False)
        else:
            features = sp.load_npz(path) if npz_array_names(path) >= SCIPY_ARRAYS else _only_matrix(path)
    except UserError:
        raise
    except READ_ERRORS as error:
        raise UserError(f"The file {path} contains no features or is damaged: {short_reason(error)}.") from None
    if features.dtype.kind not in "iufb":
        raise UserError(f"The features in {path} must be numbers, but their type is {features.dtype}.")
    return features


def npz_array_names(path: Path) -> set[str]:
    """The names of the arrays in an .npz file, which may be unpacked."""
    if not zipfile.is_zipfile(path):
        raise UserError(f"The file {path} is not an .npz file or is truncated.")
    check_zip_size(path)
    with zipfile.ZipFile(path) as archive:
        return {Path(name).stem for name in archive.namelist()}


def _only_matrix(path: Path) -> np.ndarray:
    with np.load(path, allow_pickle=False) as arrays:
        matrices = [name for name in arrays.files if arrays[name].ndim == 2]
        if len(matrices) != 1:
            raise ValueError(f"it has {len(matrices)} matrices instead of one")
        return arrays[matrices[0]]
