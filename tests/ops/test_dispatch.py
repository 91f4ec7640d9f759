"""Which version of an operation runs."""

import sys

import pytest
import torch

from afgrl.errors import AfgrlError, UserError
from afgrl.ops.dispatch import is_fast, takes_kernels


class TensorOnGPU:
    """The attributes of a tensor that the dispatch reads."""

    is_cuda, device = True, torch.device("cuda")


def test_afgrl_ops_is_checked(monkeypatch):
    monkeypatch.setenv("AFGRL_OPS", "fastest")
    with pytest.raises(UserError, match="AFGRL_OPS must be auto or reference, not 'fastest'"):
        is_fast()


def test_fast_versions_run_unless_the_reference_is_requested(monkeypatch):
    monkeypatch.delenv("AFGRL_OPS", raising=False)
    assert is_fast()
    monkeypatch.setenv("AFGRL_OPS", "auto")
    assert is_fast()
    monkeypatch.setenv("AFGRL_OPS", "reference")
    assert not is_fast()


def test_kernels_do_not_run_on_a_cpu():
    assert not takes_kernels(torch.ones(2))


def test_a_kernel_that_cannot_run_gives_the_reason(monkeypatch):
    monkeypatch.delenv("AFGRL_OPS", raising=False)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (7, 5))
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "Tesla T4")
    with pytest.raises(AfgrlError, match=r"Tesla T4 has compute capability 7\.5, but they need 8\.0; AFGRL_OPS="):
        takes_kernels(TensorOnGPU)
    monkeypatch.setitem(sys.modules, "triton", None)
    with pytest.raises(AfgrlError, match="Triton cannot be imported"):
        takes_kernels(TensorOnGPU)
    monkeypatch.setenv("AFGRL_OPS", "reference")
    assert not takes_kernels(TensorOnGPU)


def test_kernels_run_on_a_recent_gpu(monkeypatch):
    pytest.importorskip("triton", reason="Triton supports Linux only")
    monkeypatch.delenv("AFGRL_OPS", raising=False)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (8, 0))
    assert takes_kernels(TensorOnGPU)
