"""Many problems at once are solved as each would be alone."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from afgrl.evaluate.lbfgs import minimize


class Quadratics:
    """½ wᵀ A_i w - b_iᵀ w, with condition numbers from 1 to 10⁴."""

    def __init__(self, p: int = 7, size: int = 12) -> None:
        rng = torch.Generator().manual_seed(0)
        basis = torch.linalg.qr(torch.randn(p, size, size, generator=rng, dtype=torch.float64)).Q
        spectrum = torch.logspace(0, 1, size, dtype=torch.float64) ** torch.linspace(0, 4, p)[:, None].double()
        self.matrix = basis @ torch.diag_embed(spectrum) @ basis.mT
        self.linear = torch.randn(p, size, generator=rng, dtype=torch.float64)
        self.seen: list[Tensor] = []

    def __call__(self, points: Tensor, which: Tensor) -> tuple[Tensor, Tensor]:
        self.seen.append(which)
        image = (self.matrix[which] @ points.unsqueeze(2)).squeeze(2)
        linear = self.linear[which]
        return (points * (image / 2 - linear)).sum(1), image - linear


def test_quadratics_reach_their_closed_form() -> None:
    problems = Quadratics()
    found = minimize(problems, torch.zeros_like(problems.linear), tolerance=1e-9)
    exact = torch.linalg.solve(problems.matrix, problems.linear)
    torch.testing.assert_close(found, exact, rtol=0, atol=1e-8)  # every eigenvalue is at least 1


def test_easy_problems_leave_the_batch() -> None:
    problems = Quadratics()
    minimize(problems, torch.zeros_like(problems.linear), tolerance=1e-9)
    assert len(problems.seen[0]) == 7
    assert 0 not in problems.seen[-1]  # condition number 1: solved in a step


def test_a_problem_is_solved_the_same_whatever_stands_beside_it() -> None:
    problems = Quadratics()
    together = minimize(problems, torch.zeros_like(problems.linear), tolerance=1e-6)
    for i in range(7):
        alone = Quadratics()
        alone.matrix, alone.linear = alone.matrix[i : i + 1], alone.linear[i : i + 1]
        found = minimize(alone, torch.zeros_like(alone.linear), tolerance=1e-6)[0]
        torch.testing.assert_close(together[i], found, rtol=0, atol=2e-6)  # both within their tolerance


def test_a_solved_problem_is_returned_untouched() -> None:
    problems = Quadratics()
    exact = torch.linalg.solve(problems.matrix, problems.linear)
    assert torch.equal(minimize(problems, exact, tolerance=1e-6), exact)


def test_running_out_of_steps_returns_where_it_stands() -> None:
    problems = Quadratics()
    start = torch.zeros_like(problems.linear)
    found = minimize(problems, start, tolerance=0.0, max_steps=3)
    which = torch.arange(7)
    assert (problems(found, which)[0] < problems(start, which)[0]).all()


@pytest.mark.parametrize("scale", [1e-3, 1e3])
def test_a_first_step_far_too_long_or_short_is_mended(scale: float) -> None:
    problems = Quadratics()
    problems.matrix, problems.linear = problems.matrix * scale, problems.linear * scale
    found = minimize(problems, torch.zeros_like(problems.linear), tolerance=1e-9 * scale)
    exact = torch.linalg.solve(problems.matrix, problems.linear)
    torch.testing.assert_close(found, exact, rtol=0, atol=1e-8)
