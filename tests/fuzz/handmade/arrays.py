"""NumPy and PyTorch files: every array with every kind of defect, and archives that are damaged."""

import io
import warnings
import zipfile
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch

from tests.data.small_files import small_arrays
from tests.fuzz.corpus import array_folder, npy, npz, pt, scipy_arrays, tensors, with_features
from tests.fuzz.handmade.case import Handmade, check

Change = Callable[[np.ndarray], Any]


def _set(value: float) -> Change:
    def change(array: np.ndarray) -> np.ndarray:
        numbers = np.zeros(array.shape) if array.dtype.kind in "SU" else array
        changed = numbers.astype(np.float64 if isinstance(value, float) else np.int64).reshape(-1)
        changed[-1:] = value
        return changed.reshape(array.shape)

    return change


# None leaves the array out.
ARRAY_CHANGES: dict[str, Change | None] = {
    "missing": None,
    "objects": lambda array: np.array([{}, None, 1], dtype=object),
    "text": lambda array: np.full(np.shape(array), "a"),
    "bytes": lambda array: np.full(np.shape(array), b"a"),
    "complex": lambda array: np.ones(np.shape(array), np.complex64),
    "booleans": lambda array: np.ones(np.shape(array), bool),
    "dates": lambda array: np.zeros(np.shape(array), "M8[s]"),
    "records": lambda array: np.zeros(np.shape(array), [("a", "i4")]),
    "halves": lambda array: np.full(np.shape(array), 0.5),
    "uint64": lambda array: np.full(np.shape(array), 2**64 - 1, np.uint64),
    "big-endian": lambda array: np.ones(np.shape(array), ">i4"),
    "in another byte order": lambda array: np.asarray(array).astype(np.asarray(array).dtype.newbyteorder()),
    "longdouble": lambda array: np.ones(np.shape(array), np.longdouble),
    "bytes that are not ASCII": lambda array: np.full(np.shape(array), "ü".encode()),
    "one more column": lambda array: np.asarray(array)[..., None],
    "one more dimension": lambda array: np.zeros((2, *np.shape(array))),
    "a single value": lambda array: np.float64(3),
    "empty": lambda array: np.empty(0),
    "short": lambda array: np.zeros(1),
    "long": lambda array: np.zeros(1000, np.int64),
    "last is -1": _set(-1),
    "last is 31": _set(31),
    "last is 2**62": _set(2**62),
    "last is -2**63": _set(-(2**63)),
    "last is nan": _set(float("nan")),
    "last is inf": _set(float("inf")),
}
HEADERS = {
    "no dictionary": b"[1, 2]",
    "code": b"__import__('os').abort()",
    "an unknown type": b"{'descr': 'zz', 'fortran_order': False, 'shape': (12, 2), }",
    "a negative shape": b"{'descr': '<f4', 'fortran_order': False, 'shape': (-12, 2), }",
    "a shape of text": b"{'descr': '<f4', 'fortran_order': False, 'shape': ('a',), }",
    "a trillion rows": b"{'descr': '<f4', 'fortran_order': False, 'shape': (1000000000000, 12), }",
    "more than 64 bits": b"{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999, 12), }",
    "objects": b"{'descr': '|O', 'fortran_order': False, 'shape': (12, 2), }",
    "no shape": b"{'descr': '<f4', 'fortran_order': False, }",
    "open brackets": b"(" * 60,
    "not text": b"\xff" * 60,
    "subarrays": b"{'descr': ('<f4', (3,)), 'fortran_order': False, 'shape': (12, 2), }",
    "order of text": b"{'descr': '<f4', 'fortran_order': 'yes', 'shape': (12, 2), }",
}
TENSOR_CHANGES: dict[str, Callable[[torch.Tensor], Any]] = {
    "bfloat16": lambda x: x.bfloat16(),
    "float8": lambda x: x.to(torch.float8_e4m3fn),
    "half": lambda x: x.half(),
    "complex": lambda x: x.to(torch.complex64),
    "conjugate": lambda x: x.to(torch.complex64).conj(),
    "negative view": lambda x: x.to(torch.complex64).conj().imag,
    "uint64": lambda x: x.to(torch.uint64),
    "uint16": lambda x: x.to(torch.uint16),
    "bool": lambda x: x.bool(),
    "sparse": lambda x: x.float().to_sparse(),
    "quantized": lambda x: torch.quantize_per_tensor(x.float(), 0.1, 0, torch.qint8),
    "meta": lambda x: x.to("meta"),
    "with gradient": lambda x: x.float().requires_grad_(),
    "a parameter": lambda x: torch.nn.Parameter(x.float()),
    "a list": lambda x: x.tolist(),
    "text": lambda x: "text",
    "None": lambda x: None,
    "a number": lambda x: 3,
    "a dictionary": lambda x: {"nested": x},
    "a tuple": lambda x: (x, x),
    "expanded": lambda x: x.flatten()[:1].expand(10**6),
    "expanded to a billion": lambda x: x.flatten()[:1].expand(2, 5 * 10**8),
    "expanded to more columns": lambda x: x.flatten()[:1].expand(12, 10**8),
    "one more dimension": lambda x: x[None],
    "no rows": lambda x: x[..., :0],
    "a single value": lambda x: x.flatten()[0],
    "less 1": lambda x: x - 1,
    "times 2**50": lambda x: x * 2**50,
    "nan": lambda x: x / 0,
    "transposed": lambda x: x.T if x.ndim == 2 else x.flip(0),
}
ROOTS: dict[str, Callable[[], Any]] = {
    "a list": lambda: [1, 2],
    "a number": lambda: 3,
    "None": lambda: None,
    "text": lambda: "graph",
    "a tensor": lambda: torch.eye(3),
    "nothing": dict,
    "keys that are numbers": lambda: {1: torch.eye(3)},
    "a state": lambda: torch.nn.Linear(2, 2).state_dict(),
    "only features": lambda: {"x": torch.eye(3)},
    "only edges": lambda: {"edge_index": tensors()["edge_index"]},
    "only labels": lambda: {"y": torch.arange(3)},
    "a tuple of two": lambda: (tensors(), None),
    "a tuple of dictionaries": lambda: (tensors(), {}, dict),
    "a code object": lambda: {"edge_index": zipfile.ZipFile},
    "nested 200 times": lambda: _nested(200),
}
N_NODES = (-1, 0, 1, 11, 10**6, 10**12, 2**70, 3.5, float("nan"), True, "12", [12], torch.tensor([12, 13]))


def cases() -> Iterator[Handmade]:
    layouts = {
        "graph": small_arrays(),
        "adjacency": scipy_arrays(np.eye(12, k=1)),
        "features": scipy_arrays(np.eye(12)),
    }
    for layout, arrays in layouts.items():
        for name in arrays:
            for what, change in ARRAY_CHANGES.items():
                changed = {key: value for key, value in arrays.items() if key != name}
                if change is not None:
                    changed[name] = np.asarray(change(arrays[name]))
                yield _npz_case(f"npz {layout}: {name} {what}", layout, npz(changed))
        for what, content in _archives(npz(arrays), npz(arrays, zipfile.ZIP_STORED)).items():
            yield _npz_case(f"npz {layout}: {what}", layout, content)
    for name in array_folder():
        for what, change in ARRAY_CHANGES.items():
            arrays = array_folder()
            given = arrays.pop(name)
            if change is not None:
                arrays[name] = np.asarray(change(given))
            files = {f"{key}.npy": npy(array) for key, array in arrays.items()}
            yield check(f"npy folder: {name} {what}", files)
    yield from _labels()
    yield from _npy()
    yield from _tensors()


def _npz_case(name: str, layout: str, content: bytes) -> Handmade:
    if layout == "features":
        return check(name, with_features("features.npz", content).files)
    return check(name, {"graph.npz": content}, "graph.npz")


def _archives(packed: bytes, stored: bytes) -> dict[str, bytes]:
    def flagged(content: bytes, *places: tuple[bytes, int, int]) -> bytes:
        data = bytearray(content)
        for signature, offset, value in places:
            for start in [at for at in range(len(data)) if data.startswith(signature, at)]:
                data[start + offset] = value
        return bytes(data)

    central, local = b"PK\x01\x02", b"PK\x03\x04"
    return {
        "empty file": b"",
        "cut": packed[: len(packed) // 2],
        "without its last byte": packed[:-1],
        "without start": packed[50:],
        "encrypted": flagged(packed, (central, 8, 1)),
        "an unknown compression": flagged(stored, (central, 10, 77), (local, 8, 77)),
        "said to be deflated": flagged(stored, (central, 10, 8), (local, 8, 8)),
        "wrong checksums": flagged(packed, (central, 16, 7), (local, 14, 7)),
        "sizes of 4 GiB": flagged(stored, *((central, at, 0xFE) for at in range(24, 28))),
        "followed by noise": packed + b"noise",
        "no members": _archive({}),
        "members that are no arrays": _archive({"adj_data.npy": b"hello", "data.npy": b"hello"}),
        "members of other names": _archive({"../../evil.npy": npy(np.eye(3)), "/etc/evil.npy": npy(np.eye(3))}),
        "folders": _archive({"adj_data.npy/": b""}),
        "zeros at the end": packed + bytes(100_000),
        "a tar archive": b"graph.npy".ljust(512, b"\0") * 3,
    }


def _archive(members: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def _labels() -> Iterator[Handmade]:
    kinds = {
        "all missing": np.full(12, -1),
        "some missing": np.arange(12) % 3 - 1,
        "a class that nobody has": np.array([0, 5] * 6),
        "one class": np.zeros(12, int),
        "all different": np.arange(12),
        "one-hot": np.eye(12),
        "below -1": np.full(12, -7),
        "huge": np.full(12, 10**15),
        "of 11 nodes": np.zeros(11, int),
    }
    for what, labels in kinds.items():
        yield _npz_case(f"npz graph: labels {what}", "graph", npz(small_arrays() | {"labels": labels}))
        yield check(f"pt labels {what}", {"graph.pt": pt(tensors() | {"y": torch.as_tensor(labels)})}, "graph.pt")


def _npy() -> Iterator[Handmade]:
    for what, change in ARRAY_CHANGES.items():
        if change is not None:
            yield check(f"npy {what}", with_features("features.npy", npy(np.asarray(change(np.eye(12))))).files)
    for what, header in HEADERS.items():
        text = header.ljust(118 - 1) + b"\n"
        content = b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + bytes(96)
        yield check(f"npy header: {what}", with_features("features.npy", content).files)
    whole = npy(np.eye(12))
    versions = {
        "version 0": whole[:6] + b"\0\0" + whole[8:],
        "version 9": whole[:6] + b"\x09\0" + whole[8:],
        "cut": whole[:-9],
        "empty file": b"",
        "only magic": whole[:6],
        "longer": whole + bytes(99),
        "a zip archive": npz({"a": np.eye(2)}),
    }
    for what, content in versions.items():
        yield check(f"npy {what}", with_features("features.npy", content).files)


def _tensors() -> Iterator[Handmade]:
    values: dict[str, Any] = tensors()
    for name in values:
        for what, change in TENSOR_CHANGES.items():
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                content = pt(values | {name: change(values[name])})
            yield check(f"pt {name}: {what}", {"graph.pt": content}, "graph.pt")
        yield check(f"pt without {name}", {"graph.pt": pt({k: v for k, v in values.items() if k != name})}, "graph.pt")
    for what, root in ROOTS.items():
        yield check(f"pt root: {what}", {"graph.pt": pt(root())}, "graph.pt")
    for n in N_NODES:
        with_number = {"edge_index": values["edge_index"], "num_nodes": n}
        yield check(f"pt with num_nodes {n!r}", {"graph.pt": pt(with_number)}, "graph.pt")
    whole, old = pt(values), io.BytesIO()
    torch.save(values, old, _use_new_zipfile_serialization=False)
    contents = {
        "empty file": b"",
        "cut": whole[:-99],
        "of the old format": old.getvalue(),
        "of the old format, cut": old.getvalue()[:-99],
        "text": b"hello",
        "zeros": bytes(1000),
        "an npz file": npz(small_arrays()),
        "a pickle of nothing": b"\x80\x02N.",
    }
    for what, content in contents.items():
        yield check(f"pt {what}", {"graph.pt": content}, "graph.pt")


def _nested(depth: int) -> list[Any]:
    inner: list[Any] = []
    for _ in range(depth):
        inner = [inner]
    return inner
