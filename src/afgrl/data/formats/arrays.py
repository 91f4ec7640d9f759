"""Arrays in .npy and .npz files. Sizes are checked before memory is allocated, indices before native code sees them."""

from __future__ import annotations

import math
import os
import zipfile
from collections.abc import Collection
from pathlib import Path
from typing import IO, Any, Literal

import numpy as np
import scipy.sparse as sp
from numpy.lib import format as npy_format

from afgrl.data.spill import Spill, row_blocks
from afgrl.data.unpacking import check_zip, file_suffix, is_file_or_folder, short_reason
from afgrl.errors import UserError

SCIPY_ARRAYS = {"format", "shape", "data"}  # in a file of scipy.sparse.save_npz
# A sparse matrix of few values may claim any shape, but what is computed per row or column fills the memory.
PLAUSIBLE_SIZE, MAX_SIZE_PER_VALUE = 1 << 24, 1000
MAX_HEADER = 10_000  # characters; NumPy's own limit
MAPPED_BYTES = 64 << 20  # larger .npy files are mapped into memory instead of read


def load_features(path: Path, spill: Spill | None = None) -> Any:
    """[n, f], a NumPy array or a SciPy sparse matrix. A large .npy file is mapped into memory; if it is not float32, it
    is converted in ``spill``."""
    if not is_file_or_folder(path):
        raise UserError(f"File not found: {path}.")
    features = read_npy(path) if file_suffix(path) == ".npy" else _features_in_npz(path)
    if features.dtype.kind not in "iufb":
        raise UserError(f"The features in {path} must be numbers, but their type is {features.dtype}.")
    if features.ndim != 2:
        raise UserError(f"The features in {path} must have shape [nodes, features], not {features.shape}.")
    if spill is not None and isinstance(features, np.ndarray) and not is_plain(features):
        return spill.array((features[rows] for rows in row_blocks(len(features))), features.shape)
    return features


def is_plain(features: np.ndarray) -> bool:
    """Whether a graph takes these features without a copy."""
    return features.dtype == np.float32 and features.dtype.isnative and bool(features.flags.c_contiguous)


def npz_headers(path: Path) -> dict[str, tuple[tuple[int, ...], np.dtype[Any]] | None]:
    """The shape and type of each array in an .npz file; None if its header cannot be read."""
    headers: dict[str, tuple[tuple[int, ...], np.dtype[Any]] | None] = {}
    with check_zip(path) as archive:
        for entry in archive.infolist():
            try:
                with archive.open(entry) as file:
                    shape, _, dtype = _read_header(file)
                headers[_array_name(entry.filename)] = shape, dtype
            except Exception:  # of zipfile, zlib and NumPy
                headers[_array_name(entry.filename)] = None
    return headers


def read_npz(path: Path, names: Collection[str] | None = None) -> dict[str, np.ndarray]:
    """The arrays of these names, or all of them. Arrays of Python objects are refused: they are pickles."""
    arrays = {}
    with check_zip(path) as archive:
        for entry in archive.infolist():
            name = _array_name(entry.filename)
            if names is None or name in names:
                arrays[name] = _read_member(path, archive, entry)
    return arrays


def sparse_matrix(arrays: dict[str, np.ndarray]) -> Any:
    """The matrix in a file of scipy.sparse.save_npz. An index out of bounds would read or write foreign memory."""
    form = arrays["format"].item()
    form = form.decode("ascii", "replace") if isinstance(form, bytes) else str(form)
    shape = tuple(int(size) for size in np.atleast_1d(arrays["shape"]))
    data = arrays["data"]
    if len(shape) != 2 or min(shape) < 0 or max(shape) > max(PLAUSIBLE_SIZE, MAX_SIZE_PER_VALUE * data.size):
        raise ValueError(f"its matrix of {data.size:,} values has the shape {shape}")
    if data.dtype.kind not in "iufb":
        raise ValueError(f"the values of its matrix have the type {data.dtype}")
    if form == "coo":
        return sp.coo_array((data, (_indices(arrays, "row"), _indices(arrays, "col"))), shape=shape)
    if form == "dia":
        return sp.dia_array((data, _indices(arrays, "offsets")), shape=shape).tocoo()
    if form not in ("csr", "csc", "bsr"):
        raise ValueError(f"its matrix has the unknown format {form!r}")
    indices, indptr = _indices(arrays, "indices"), _indices(arrays, "indptr")
    if indptr.size and (indptr.min() < 0 or indptr.max() > len(indices)):  # SciPy's differences of these may overflow
        raise ValueError(f"indptr must be between 0 and {len(indices):,}")
    matrix_class = {"csr": sp.csr_array, "csc": sp.csc_array, "bsr": sp.bsr_array}[form]
    matrix = matrix_class((data, indices, indptr), shape=shape)
    matrix.check_format(full_check=True)
    return matrix


def csr_matrix(arrays: dict[str, np.ndarray], prefix: str = "") -> sp.csr_array:
    """The matrix of the arrays ``<prefix>data``, ``<prefix>indices``, ``<prefix>indptr`` and ``<prefix>shape``."""
    parts = {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
    return sp.csr_array(sparse_matrix(parts | {"format": np.array("csr")}))


def _indices(arrays: dict[str, np.ndarray], name: str) -> np.ndarray:
    if arrays[name].dtype.kind not in "iu" or arrays[name].ndim != 1:
        raise ValueError(f"{name} must be a list of integers")
    return arrays[name]


def _features_in_npz(path: Path) -> Any:
    arrays = read_npz(path)
    try:
        if arrays.keys() >= SCIPY_ARRAYS:
            return sparse_matrix(arrays)
        matrices = [array for array in arrays.values() if array.ndim == 2]
        if len(matrices) != 1:
            raise ValueError(f"it has {len(matrices)} matrices instead of one")
        return matrices[0]
    except (ValueError, TypeError, KeyError, OverflowError) as error:
        raise UserError(f"The file {path} contains no features or is damaged: {short_reason(error)}.") from None


def read_npy(path: Path) -> np.ndarray:
    """The array of a .npy file; a large one is mapped into memory, and writing to it does not change the file."""
    try:
        with open(path, "rb") as file:
            size = os.path.getsize(path)
            if path.suffix.lower() == ".npy" and size > MAPPED_BYTES:
                shape, fortran_order, dtype = array_header(file, size)
                order: Literal["C", "F"] = "F" if fortran_order else "C"
                return np.memmap(path, dtype, "c", file.tell(), shape, order)
            return read_array(file, size)
    except (MemoryError, UserError):
        raise
    except Exception as error:  # NumPy raises many types for a damaged header
        raise UserError(f"The file {path} contains no array or is damaged: {short_reason(error)}.") from None


def _read_member(path: Path, archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> np.ndarray:
    try:
        with archive.open(entry) as file:
            return read_array(file, entry.file_size)
    except (MemoryError, UserError):
        raise
    except Exception as error:  # of zipfile, zlib and NumPy
        name = _array_name(entry.filename)
        raise UserError(f"The array {name!r} in {path} is damaged: {short_reason(error)}.") from None


def array_header(file: IO[bytes], size: int) -> tuple[tuple[int, ...], bool, np.dtype]:
    """Shape, whether columns are contiguous, and type of an array whose header claims no more than the file has."""
    shape, fortran_order, dtype = _read_header(file)
    if dtype.hasobject:
        raise ValueError("it contains Python objects, which are not loaded")
    count = math.prod(shape)  # of Python's integers, which do not overflow
    if min(shape, default=0) < 0 or count * dtype.itemsize > size:
        raise ValueError(f"its header claims {count:,} values, more than the file has")
    return shape, fortran_order, dtype


def read_array(file: IO[bytes], size: int) -> np.ndarray:
    """The array of an open .npy file of that size."""
    shape, fortran_order, dtype = array_header(file, size)
    count = math.prod(shape)
    content = memoryview(bytearray(count * dtype.itemsize))  # writable, unlike bytes, so that no copy is needed
    filled = 0
    while filled < len(content):
        n_read = file.readinto(content[filled:])  # type: ignore[attr-defined]
        if not n_read:
            raise ValueError("it is truncated")
        filled += n_read
    array = np.frombuffer(content, dtype=dtype, count=count).reshape(shape, order="F" if fortran_order else "C")
    return array.astype(dtype.newbyteorder("="), copy=False)  # SciPy, Arrow and PyTorch know no other byte order


def _read_header(file: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    version = npy_format.read_magic(file)
    read = npy_format.read_array_header_1_0 if version == (1, 0) else npy_format.read_array_header_2_0
    return read(file, max_header_size=MAX_HEADER)


def _array_name(member: str) -> str:
    return member.removesuffix(".npy")
