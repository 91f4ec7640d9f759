"""How benchmarks.combinations chooses, and the probe of benchmarks.published."""

import torch

from afgrl.data.splits import TEST, TRAIN, VALIDATION
from benchmarks.combinations import DEFAULT, SPARSE, gains, leave_one_out, means
from benchmarks.published import LinearProbe, probe_accuracy


def scores(value):
    return {"accuracy": value, "sim@5": value, "readout nmi": value, "nmi": value}


def test_a_combination_is_chosen_on_the_other_graphs():
    found = {
        "cora": {DEFAULT: scores(1.0), "other": scores(9.0)},
        "acm": {DEFAULT: scores(1.0), "other": scores(0.5)},
        "cs": {DEFAULT: scores(1.0), "other": scores(0.5)},
    }
    chosen = leave_one_out(found)
    assert chosen["cora"] == DEFAULT  # the others do not know how good it would be here
    assert gains(found, {"cora": "other", "acm": DEFAULT, "cs": DEFAULT})["accuracy"] == 8 / 3


def test_seeds_without_all_combinations_do_not_count():
    own = {"0": {DEFAULT: scores(1.0), SPARSE: scores(3.0)}, "1": {DEFAULT: scores(100.0)}}
    answer = {"names": [DEFAULT, SPARSE], "scores": {"cora": own, "photo": own}, "density": {"cora": 0.1, "photo": 0.9}}
    found = means(answer)
    assert found["cora"][DEFAULT]["accuracy"] == 1.0
    sparse_only = f"{SPARSE}, sparse features only"
    assert (found["cora"][sparse_only]["nmi"], found["photo"][sparse_only]["nmi"]) == (3.0, 1.0)


def test_the_probe_reports_the_test_accuracy_of_the_best_validation_step(rng):
    """Classes without overlap: a step that is right about all validation nodes is right about all test nodes."""
    y = torch.arange(60) % 3
    vectors = torch.eye(3)[y] + 0.01 * torch.randn(60, 3, generator=rng)
    roles = torch.tensor([TRAIN, VALIDATION, TEST]).repeat_interleave(20)
    swapped = torch.where(roles == TEST, (y + 1) % 3, y)  # wrong labels of the test nodes alone
    for last in (False, True):
        probe = LinearProbe(0.1, 0.0, 50, last)
        assert probe_accuracy(vectors, y, roles, probe, 0) == 100.0
        assert probe_accuracy(vectors, swapped, roles, probe, 0) == 0.0
