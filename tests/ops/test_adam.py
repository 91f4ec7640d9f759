"""Adam against PyTorch's own, on this machine's device and, for the kernels, in Triton's interpreter."""

import copy

import pytest
import torch

from afgrl.ops import Adam, lerp_all

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
SHAPES = [(70, 33), (5,), (1,), (2, 3, 4)]


def parameters(rng):
    return [torch.randn(*shape, generator=rng).to(DEVICE).requires_grad_() for shape in SHAPES]


def moved(optimizer, ours, rng, steps=5):
    for step in range(steps):
        if isinstance(optimizer, Adam):
            optimizer.set_learning_rate(0.01 * (step + 1))
        else:
            optimizer.param_groups[0]["lr"] = 0.01 * (step + 1)
        for parameter in ours:
            parameter.grad = torch.randn(parameter.shape, generator=rng).to(DEVICE)
        optimizer.step()
    return ours


@pytest.mark.parametrize("decoupled", [True, False])
def test_it_is_pytorchs(decoupled, rng):
    theirs = parameters(rng)
    ours = copy.deepcopy(theirs)
    state = rng.get_state()
    cls = torch.optim.AdamW if decoupled else torch.optim.Adam
    moved(cls(theirs, lr=0.01, weight_decay=0.1), theirs, rng)
    rng.set_state(state)
    moved(Adam(ours, 0.01, weight_decay=0.1, decoupled=decoupled), ours, rng)
    for a, b in zip(ours, theirs, strict=True):
        assert torch.allclose(a, b, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("decoupled", [True, False])
def test_the_kernel_moves_parameters_as_the_reference(decoupled, rng):
    pytest.importorskip("triton", reason="Triton is made for Linux alone")
    from afgrl.ops.adam_triton import adam_kernel

    theirs = parameters(rng)
    ours = copy.deepcopy(theirs)
    optimizer = torch.optim.Adam(theirs, lr=0.03, weight_decay=0.1, decoupled_weight_decay=decoupled)
    state = {
        id(p): {
            "step": torch.zeros((), device=DEVICE),
            "exp_avg": torch.zeros_like(p),
            "exp_avg_sq": p.new_zeros(p.shape),
        }
        for p in ours
    }
    group = {**optimizer.param_groups[0], "lr": torch.tensor(0.03, device=DEVICE)}
    for _ in range(4):
        for a, b in zip(ours, theirs, strict=True):
            b.grad = torch.randn(b.shape, generator=rng).to(DEVICE)
            a.grad = b.grad.clone()
        optimizer.step()
        with torch.no_grad():
            adam_kernel(ours, {p: state[id(p)] for p in ours}, group)
    for a, b in zip(ours, theirs, strict=True):
        assert torch.allclose(a, b, rtol=1e-5, atol=1e-6)
        assert torch.allclose(state[id(a)]["exp_avg_sq"], optimizer.state[b]["exp_avg_sq"], rtol=1e-5)


def test_the_kernel_leads_targets_as_the_reference(rng):
    pytest.importorskip("triton", reason="Triton is made for Linux alone")
    from afgrl.ops.adam_triton import lerp_kernel

    sources = [source.detach() for source in parameters(rng)]
    ours, theirs = ([source.flip(0).clone() for source in sources] for _ in range(2))
    lerp_kernel(ours, sources, 0.3)
    lerp_all(theirs, sources, 0.3)
    for a, b, source in zip(ours, theirs, sources, strict=True):
        assert torch.allclose(a, b, atol=1e-6)
        assert torch.allclose(a, 0.7 * source.flip(0) + 0.3 * source, atol=1e-6)


def test_a_checkpoint_of_another_device_goes_on_here(rng):
    theirs = parameters(rng)
    ours = copy.deepcopy(theirs)
    optimizer = Adam(theirs, 0.01, weight_decay=0.1, decoupled=True)
    moved(optimizer, theirs, rng)
    saved = copy.deepcopy(optimizer.state_dict())
    for group in saved["param_groups"]:  # as a GPU would have written it
        group |= {"lr": torch.tensor(0.05), "fused": True, "capturable": True}
    fresh = Adam(ours, 0.5, weight_decay=0.1, decoupled=True)
    fresh.load_state_dict(saved)
    assert fresh.param_groups[0]["fused"] == optimizer.param_groups[0]["fused"]
    assert type(fresh.param_groups[0]["lr"]) is type(optimizer.param_groups[0]["lr"])
    assert float(fresh.param_groups[0]["lr"]) == pytest.approx(0.05)
    moved(fresh, ours, rng, steps=1)
