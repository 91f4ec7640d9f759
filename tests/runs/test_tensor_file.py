"""Files of tensors: readable by the library whose format they have."""

import json

import numpy as np
import torch
from safetensors.torch import load_file

from afgrl.runs.tensor_file import TYPES, read_tensors, write_tensors


def test_the_library_reads_every_type_and_shape(tmp_path):
    tensors = {f"{dtype} of {shape}".replace("torch.", ""): torch.arange(12).reshape(3, 4)[shape].to(dtype)
               for dtype in TYPES for shape in (..., 0, (0, 1), slice(0, 0))}  # fmt: skip
    # Both have the stride 0, with which PyTorch refuses to show the bytes.
    tensors |= {"none of NumPy": torch.from_numpy(np.zeros(0)), "one, repeated once": torch.ones(()).expand(1)}
    tensors["turned"] = torch.arange(6.0).reshape(2, 3).T
    write_tensors(tmp_path / "file", tensors, {"what": 'ä "quoted"'})
    for found in (load_file(tmp_path / "file"), read_tensors(tmp_path / "file")[0]):
        assert found.keys() == tensors.keys()
        for name, tensor in tensors.items():
            assert found[name].dtype == tensor.dtype
            assert torch.equal(found[name], tensor)
    assert read_tensors(tmp_path / "file")[1]["what"] == 'ä "quoted"'
    content = (tmp_path / "file").read_bytes()
    length = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + length])
    for name, tensor in tensors.items():  # aligned, as readers that map the file need it
        assert (8 + length + header[name]["data_offsets"][0]) % tensor.element_size() == 0
