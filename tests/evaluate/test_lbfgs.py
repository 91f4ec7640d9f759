"""A batch of problems is solved as each problem would be alone."""

from __future__ import annotations

import pytest
import torch
from scipy import optimize
from torch import Tensor

from afgrl.evaluate import lbfgs
from afgrl.evaluate.lbfgs import minimize


class Quadratics:
    """½ wᵀ A_i w - b_iᵀ w, with condition numbers from 1 to 10⁴."""

    def __init__(self, p: int = 7, size: int = 12) -> None:
        rng = torch.Generator().manual_seed(0)
        basis = torch.linalg.qr(torch.randn(p, size, size, generator=rng, dtype=torch.float64)).Q
        spectrum = torch.logspace(0, 1, size, dtype=torch.float64) ** torch.linspace(0, 4, p)[:, None].double()
        self.matrix = basis @ torch.diag_embed(spectrum) @ basis.mT
        self.linear = torch.randn(p, size, generator=rng, dtype=torch.float64)
        self.calls: list[Tensor] = []  # the problems of each call

    def __call__(self, points: Tensor, problems: Tensor) -> tuple[Tensor, Tensor]:
        self.calls.append(problems)
        image = (self.matrix[problems] @ points.unsqueeze(2)).squeeze(2)
        linear = self.linear[problems]
        return (points * (image / 2 - linear)).sum(1), image - linear

    def only(self, i: int) -> Quadratics:
        alone = Quadratics()
        alone.matrix, alone.linear = alone.matrix[i : i + 1], alone.linear[i : i + 1]
        return alone


def test_quadratics_reach_their_closed_form() -> None:
    problems = Quadratics()
    solution = minimize(problems, torch.zeros_like(problems.linear), tolerance=1e-9)
    exact = torch.linalg.solve(problems.matrix, problems.linear)
    torch.testing.assert_close(solution, exact, rtol=0, atol=1e-8)  # every eigenvalue is at least 1


def test_converged_problems_leave_the_batch() -> None:
    problems = Quadratics()
    minimize(problems, torch.zeros_like(problems.linear), tolerance=1e-9)
    calls = [sum(i in call for call in problems.calls) for i in range(7)]
    assert calls[0] == 2  # condition number 1: the start and one step
    assert calls[6] == max(calls) > 100  # condition number 10⁴


def test_a_problem_has_the_same_solution_alone_and_in_a_batch() -> None:
    problems = Quadratics()
    together = minimize(problems, torch.zeros_like(problems.linear), tolerance=1e-6)
    for i in range(7):
        alone = problems.only(i)
        solution = minimize(alone, torch.zeros_like(alone.linear), tolerance=1e-6)[0]
        torch.testing.assert_close(together[i], solution, rtol=0, atol=2e-6)  # both within the tolerance


@pytest.mark.parametrize("i", [2, 4, 6])
def test_it_needs_no_more_evaluations_than_scipy(i: int) -> None:
    problem = Quadratics().only(i)
    minimize(problem, torch.zeros_like(problem.linear), tolerance=1e-8)
    own_calls = len(problem.calls)

    def objective(point):
        value, gradient = problem(torch.from_numpy(point)[None], torch.arange(1))
        return float(value), gradient[0].numpy()

    options = {"maxcor": 10, "gtol": 1e-8, "ftol": 0}
    theirs = optimize.minimize(
        objective, torch.zeros(12).double().numpy(), jac=True, method="L-BFGS-B", options=options
    )
    assert own_calls <= 1.5 * theirs.nfev  # about as many here; the line searches differ


def test_the_last_ten_correction_pairs_are_used(monkeypatch: pytest.MonkeyPatch) -> None:
    used: list[list[int]] = []
    product = lbfgs._inverse_hessian_product

    def recorded(pairs: list[lbfgs.CorrectionPair], gradient: Tensor) -> Tensor:
        used.append([id(pair) for pair in pairs])
        return product(pairs, gradient)

    monkeypatch.setattr(lbfgs, "_inverse_hessian_product", recorded)
    problem = Quadratics().only(5)
    minimize(problem, torch.zeros_like(problem.linear), tolerance=1e-6)
    newest = [pairs[-1] for pairs in used[1:]]  # the first step has none
    assert len(newest) > 20
    for i, pairs in enumerate(used):
        assert pairs == newest[max(0, i - 10) : i]


def test_a_solved_problem_is_returned_unchanged() -> None:
    problems = Quadratics()
    exact = torch.linalg.solve(problems.matrix, problems.linear)
    assert torch.equal(minimize(problems, exact, tolerance=1e-6), exact)


def test_after_the_last_step_the_current_point_is_returned() -> None:
    problems = Quadratics()
    start = torch.zeros_like(problems.linear)
    solution = minimize(problems, start, tolerance=0.0, max_steps=3)
    every = torch.arange(7)
    assert (problems(solution, every)[0] < problems(start, every)[0]).all()
    assert (start == 0).all()  # the argument is not modified


@pytest.mark.parametrize("scale", [1e-3, 1e3])
def test_a_first_step_that_is_far_too_long_or_too_short_is_corrected(scale: float) -> None:
    problems = Quadratics()
    problems.matrix, problems.linear = problems.matrix * scale, problems.linear * scale
    solution = minimize(problems, torch.zeros_like(problems.linear), tolerance=1e-9 * scale)
    exact = torch.linalg.solve(problems.matrix, problems.linear)
    torch.testing.assert_close(solution, exact, rtol=0, atol=1e-8)


def test_steps_without_curvature_are_accepted() -> None:
    def huber(points: Tensor, problems: Tensor) -> tuple[Tensor, Tensor]:
        inside = points.abs() <= 1
        value = torch.where(inside, points.square() / 2, points.abs() - 0.5)
        return value.sum(1), points.clamp(-1, 1)  # the gradient is constant outside of [-1, 1]

    solution = minimize(huber, torch.tensor([[7.5, -3.25], [0.5, 12.0]], dtype=torch.float64), tolerance=1e-9)
    torch.testing.assert_close(solution, torch.zeros(2, 2, dtype=torch.float64), rtol=0, atol=1e-9)
