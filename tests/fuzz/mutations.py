"""Mutations: of bytes, of the cells of text, of arrays in .npz files, of tensors in .pt files."""

import gzip
import random
import warnings
import zipfile
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from tests.data.small_files import small_arrays
from tests.fuzz.corpus import Case, array_folder, corpus, npy, npz, pt, scipy_arrays, tensors

CELLS = (
    "", " ", "\u00a0", "\u2003\t", "NA", "nan", "inf", "-inf", "1e999", "-1", "0", "9" * 5000, "1" * 200_000, "=1+1",
    '"', '""', "\n", "\r", "\0", "\ufeff", "\u202e", "2021-02-30", "0x10", "1_000", "true", "n0", "NULL", "💥", "-0",
    "1e-400", "/dev/zero", "99999999999999999999", "<!ENTITY", "]]>", "&amp;", "[", "{", "'", "id", "label", "source",
)  # fmt: skip
MAX_TEXT = 4 << 20  # repeated lines of repeated cells
NUMBERS = (b"\0" * 4, b"\xff" * 4, b"\x7f\xff\xff\xff", b"\xff\xff\xff\x7f", b"\0" * 8, b"\xff" * 8, b"\x01")
VALUES = (-1, 0, 1, 11, 12, 31, 2**31 - 1, 2**31, 2**62, -(2**63), 7)
DTYPES = (
    "int8", "int32", "int64", "uint64", "float16", "float32", "float64", "complex64", "bool", "S4", "U3", "M8[s]",
    ">i4", ">i8", ">f4", ">f8", ">U3", ">M8[s]", "longdouble",
)  # fmt: skip


def mutated(seed: int) -> tuple[str, Case]:
    """The name of a format, and a broken input of it."""
    rng = random.Random(seed)
    formats = corpus()
    name = rng.choice(list(formats))
    case = formats[name]()
    structured: dict[str, Callable[[random.Random], bytes]] = {
        "npz of a graph": lambda r: _changed_npz(r, small_arrays()),
        "npz of an adjacency": lambda r: _changed_npz(r, scipy_arrays(np.eye(12, k=1))),
        "npz of features": lambda r: _changed_npz(r, scipy_arrays(np.eye(12))),
        "pt": _changed_tensors,
    }
    file = rng.choice(list(case.files))
    content = case.files[file]
    if name == "npy folder" and rng.random() < 0.8:
        content = npy(_changed_array(rng, array_folder()[file.removesuffix(".npy")]))
    elif name in structured and file != "edges.csv" and rng.random() < 0.6:
        content = structured[name](rng)
        if rng.random() < 0.2:
            content = _changed_bytes(rng, content)
    elif file.endswith((".csv", ".tsv", ".edges", ".graphml", ".gexf", ".toml")) and rng.random() < 0.7:
        content = _changed_text(rng, content)
    elif file.endswith(".gz") and rng.random() < 0.5:
        content = gzip.compress(_changed_text(rng, gzip.decompress(content)))
    else:
        content = _changed_bytes(rng, content)
    return name, Case({**case.files, file: content}, case.source)


def _changed_bytes(rng: random.Random, content: bytes) -> bytes:
    data = bytearray(content)
    for _ in range(rng.randint(1, 4)):
        at, end = sorted(rng.randrange(len(data) + 1) for _ in range(2))
        match rng.randrange(7):
            case 0 if data:
                data[min(at, len(data) - 1)] ^= 1 << rng.randrange(8)
            case 1:
                data[at:at] = rng.choice(NUMBERS)
            case 2:
                number = rng.choice(NUMBERS)
                data[at : at + len(number)] = number
            case 3:
                del data[at:end]
            case 4:
                data[at:at] = data[at:end]
            case 5:
                del data[at:]
            case _:
                data[at:at] = rng.randbytes(rng.randrange(20))
    return bytes(data)


def _changed_text(rng: random.Random, content: bytes) -> bytes:
    lines = content.decode(errors="replace").split("\n")
    for _ in range(rng.randint(1, 3)):
        row = rng.randrange(len(lines))
        separator = rng.choice([",", "\t", " ", '"', "=", "<", ">"])
        cells = lines[row].split(separator)
        match rng.randrange(6):
            case 0 | 1:
                cells[rng.randrange(len(cells))] = rng.choice(CELLS)
            case 2:
                cells = cells * rng.choice([2, 1000])
            case 3:
                cells = cells[: rng.randrange(len(cells) + 1)]
            case 4:
                lines[row:row] = [lines[row]] * rng.choice([1, 1000])
            case _:
                rng.shuffle(cells)
        lines[row] = separator.join(cells)
    return "\n".join(lines).encode(errors="replace")[:MAX_TEXT]


def _changed_array(rng: random.Random, given: np.ndarray) -> np.ndarray:
    array = np.array(given)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        match rng.randrange(8):
            case 0:
                array = array.astype(rng.choice(DTYPES), casting="unsafe") if array.dtype.kind in "iuf" else array
            case 1 | 2 if array.size and array.dtype.kind in "iuf":
                array = array.astype(np.int64) if array.dtype.kind in "iu" else array
                array.flat[rng.randrange(array.size)] = rng.choice(VALUES)
            case 3:
                array = array.reshape(-1)[: rng.randrange(array.size + 1)]
            case 4:
                array = np.stack([array, array])
            case 5:
                array = np.array(["a", None, 1.5], dtype=object)
            case 6:
                array = array[..., None]
            case _:
                array = np.concatenate([array.reshape(-1)] * 3)
    return array


def _changed_npz(rng: random.Random, arrays: dict[str, np.ndarray]) -> bytes:
    name = rng.choice(list(arrays))
    array = _changed_array(rng, arrays[name])
    changed = {**arrays, name: array}
    if rng.random() < 0.2:
        del changed[rng.choice(list(changed))]
    content = bytearray(npz(changed, rng.choice([zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2])))
    if rng.random() < 0.1:  # a flag that says: encrypted
        content[content.rindex(b"PK\x01\x02") + 8] |= 1
    return bytes(content)


def _changed_tensors(rng: random.Random) -> bytes:
    values = tensors()
    name = rng.choice(list(values))
    value: Any = values[name]
    kinds: list[Callable[[], Any]] = [
        lambda: value.to(rng.choice([torch.bfloat16, torch.float16, torch.float64, torch.float8_e4m3fn])),
        lambda: value.to(torch.complex64).conj(),
        lambda: value.to(torch.complex64).conj().imag,  # has the negative bit
        lambda: torch.quantize_per_tensor(value.float(), 0.1, 0, torch.qint8),
        lambda: value.float().to_sparse(),
        lambda: value.float().to_sparse_csr() if value.ndim == 2 else value.float().to_sparse(),
        lambda: value.to("meta"),
        lambda: value.float().requires_grad_(),
        lambda: value.to(rng.choice([torch.uint16, torch.uint32, torch.uint64, torch.bool, torch.int8])),
        lambda: value.tolist(),
        lambda: "text",
        lambda: None,
        lambda: value[..., None],
        lambda: value[..., :0],
        lambda: value.flatten()[0],
        lambda: value - rng.choice([1, 5, 2**40]),
        lambda: value * rng.choice([3, -1, 2**50]),
        lambda: {"nested": value},
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        changed: dict[str, Any] = {**values, name: rng.choice(kinds)()}
    if rng.random() < 0.3:
        changed["num_nodes"] = rng.choice([-1, 10**12, "12", 3.5, None, torch.tensor(12), True])
    if rng.random() < 0.2:
        del changed[rng.choice(list(changed))]
    return pt(changed)
