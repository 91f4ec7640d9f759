"""Adam and EMA updates against PyTorch's, and the Triton kernels against those."""

import copy

import pytest
import torch

from afgrl.ops.optim import Adam, lerp_parameters

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
SHAPES = [(70, 33), (5,), (1,), (2, 3, 4)]


def parameters(rng):
    return [torch.randn(*shape, generator=rng).to(DEVICE).requires_grad_() for shape in SHAPES]


def after_steps(optimizer, ours, rng, steps=5):
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
def test_equals_pytorchs_optimizer(decoupled, rng):
    theirs = parameters(rng)
    ours = copy.deepcopy(theirs)
    state = rng.get_state()
    cls = torch.optim.AdamW if decoupled else torch.optim.Adam
    after_steps(cls(theirs, lr=0.01, weight_decay=0.1), theirs, rng)
    rng.set_state(state)
    after_steps(Adam(ours, 0.01, weight_decay=0.1, decoupled=decoupled), ours, rng)
    for a, b in zip(ours, theirs, strict=True):
        assert torch.allclose(a, b, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("decoupled", [True, False])
def test_the_adam_kernel_equals_pytorchs_optimizer(decoupled, rng):
    pytest.importorskip("triton", reason="Triton supports Linux only")
    from afgrl.ops.optim.triton import adam_step_triton

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
            adam_step_triton(ours, {p: state[id(p)] for p in ours}, group)
    for a, b in zip(ours, theirs, strict=True):
        assert torch.allclose(a, b, rtol=1e-5, atol=1e-6)
        assert torch.allclose(state[id(a)]["exp_avg_sq"], optimizer.state[b]["exp_avg_sq"], rtol=1e-5)


def test_the_lerp_kernel_equals_the_reference(rng):
    pytest.importorskip("triton", reason="Triton supports Linux only")
    from afgrl.ops.optim.triton import lerp_parameters_triton

    sources = [source.detach() for source in parameters(rng)]
    ours, theirs = ([source.flip(0).clone() for source in sources] for _ in range(2))
    lerp_parameters_triton(ours, sources, 0.3)
    lerp_parameters(theirs, sources, 0.3)
    for a, b, source in zip(ours, theirs, sources, strict=True):
        assert torch.allclose(a, b, atol=1e-6)
        assert torch.allclose(a, 0.7 * source.flip(0) + 0.3 * source, atol=1e-6)


def test_a_checkpoint_of_another_device_can_be_continued(rng):
    theirs = parameters(rng)
    ours = copy.deepcopy(theirs)
    optimizer = Adam(theirs, 0.01, weight_decay=0.1, decoupled=True)
    after_steps(optimizer, theirs, rng)
    saved = copy.deepcopy(optimizer.state_dict())
    for group in saved["param_groups"]:  # as a GPU would have written it
        group |= {"lr": torch.tensor(0.05), "fused": True, "capturable": True}
    fresh = Adam(ours, 0.5, weight_decay=0.1, decoupled=True)
    fresh.load_state_dict(saved)
    assert fresh.param_groups[0]["fused"] == optimizer.param_groups[0]["fused"]
    assert type(fresh.param_groups[0]["lr"]) is type(optimizer.param_groups[0]["lr"])
    assert float(fresh.param_groups[0]["lr"]) == pytest.approx(0.05)
    after_steps(fresh, ours, rng, steps=1)
