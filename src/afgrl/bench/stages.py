"""AFGRL on one dataset: an epoch, its stages, and whether the fast path and the reference agree."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from afgrl.bench.epochs import epoch_seconds, training_state
from afgrl.bench.measure import captured, implementation
from afgrl.cost.machine import median_seconds
from afgrl.cost.memory import peak_memory as predicted_memory
from afgrl.cost.workload import Workload, arithmetic
from afgrl.data import Dataset
from afgrl.errors import AfgrlError
from afgrl.methods.afgrl import AFGRLMethod, AFGRLSettings, Inputs
from afgrl.methods.parts.positives import candidate_pairs
from afgrl.nn import Progress, ema_update
from afgrl.ops.kmeans import random_rows, run_kmeans
from afgrl.ops.pair_loss import positive_pair_loss
from afgrl.ops.propagation import Propagated, propagate
from afgrl.train.cuda_graph import capture_stream, eager_step, matmul_precision
from afgrl.train.state import TrainState


@dataclass(frozen=True)
class AFGRLBench:
    dataset: Dataset
    settings: AFGRLSettings
    device: torch.device
    seconds: float  # time limit for each measurement

    def epochs(self, rates: dict[str, float]) -> dict[str, Any]:
        work = Workload.of(self.dataset.graph, self.device.type)
        needed = arithmetic(self.settings, work)
        warm_start = self.settings.model_copy(update={"warm_start": True})
        (reference, _), (fast, peak), (warm, _) = (
            epoch_seconds("afgrl", settings, self.dataset, self.device, choice, self.seconds)
            for choice, settings in (("reference", self.settings), ("auto", self.settings), ("auto", warm_start))
        )
        search = needed.search / rates["search"] / self.settings.refresh_every
        return {
            "reference_ms": 1e3 * reference,
            "fast_ms": 1e3 * fast,
            "warm_ms": 1e3 * warm,  # k-means starts from the previous centers
            "limit_ms": 1e3 * (needed.train / rates["train"] + search),
            "speedup": reference / fast,
            "peak_bytes": peak,
            "predicted_bytes": predicted_memory(self.settings, work),
        }

    def stages(self, rates: dict[str, float]) -> list[dict[str, Any]]:
        """For each stage of an epoch: the reference, the fast path and the limit."""
        times: dict[str, dict[str, float]] = {}
        for choice in ("reference", "auto"):
            with implementation(choice), matmul_precision(self.settings.precision):
                for stage, call in self._calls().items():
                    captures = choice == "auto" and self.device.type == "cuda" and stage != "propagate"
                    with capture_stream(self.device):
                        timed = captured(call) if captures else call
                        times.setdefault(stage, {})[choice] = median_seconds(timed, self.device, self.seconds / 4)
        limits = self._limits(rates)
        return [
            {
                "dataset": self.dataset.name, "stage": stage, "reference_ms": 1e3 * time["reference"],
                "fast_ms": 1e3 * time["auto"], "limit_ms": limits.get(stage),
                "speedup": time["reference"] / time["auto"],
            }
            for stage, time in times.items()
        ]  # fmt: skip

    def _calls(self) -> dict[str, Callable[[], Any]]:
        settings = self.settings
        state, inputs, method = self._trained()
        x = inputs.propagated
        with torch.no_grad():
            h, t = method.encoder(x), method.target(x)
        rows = random_rows(h.shape[0], min(settings.n_clusters, h.shape[0]), settings.n_restarts, state.rng)
        graph = self.dataset.graph.to(self.device)
        leaf, matrix = h.clone().requires_grad_(), method.search.matrix
        assert matrix is not None

        def encode() -> None:
            method.encoder(x)
            with torch.no_grad():
                method.target(x)

        def step() -> None:
            loss = positive_pair_loss(method.predictor(leaf), t, matrix, over=settings.loss_over)
            state.optimizer.zero_grad()
            leaf.grad = None
            loss.backward()
            method.encoder(x).backward(leaf.grad)  # an epoch includes the backward pass of the encoder
            state.optimizer.step()
            ema_update(method.target, method.encoder, 0.99)

        return {
            "propagate": lambda: propagate(graph, settings.n_hops),
            "encode": encode,
            "k-NN": lambda: candidate_pairs(h, t, settings.n_neighbors, settings.include_self, settings.precision),
            "k-means": lambda: run_kmeans(
                t, rows.shape[1], unit=True, n_restarts=settings.n_restarts, n_iters=settings.kmeans_iters, rows=rows,
                precision=settings.precision,
            ),
            "loss and step": step,
        }  # fmt: skip

    def _trained(self) -> tuple[TrainState, Inputs, AFGRLMethod]:
        """After two steps, when there are positives and the vectors have changed."""
        state, inputs = training_state("afgrl", self.settings, self.dataset, self.device)
        method = state.method
        assert isinstance(method, AFGRLMethod)
        for step in (1, 2):
            eager_step(method, state.optimizer, state.rng, inputs)
            method.after_step(Progress(step, 1000))
        return state, inputs, method

    def _limits(self, rates: dict[str, float]) -> dict[str, float]:
        needed = arithmetic(self.settings, Workload.of(self.dataset.graph, self.device.type))
        return {
            "encode": 2e3 * needed.encode / rates["train"],
            "k-NN": 1e3 * needed.neighbors / rates["search"],
            "k-means": 1e3 * needed.clusters / rates["search"],
            # The backward pass of the encoder, for which this stage repeats the forward pass.
            "loss and step": 1e3 * (3 * needed.predict + 2 * needed.encode) / rates["train"],
        }

    def agreement(self) -> dict[str, float]:
        """Distances between the fast path and the reference for the same vectors; raises if one is too large."""
        settings, graph = self.settings, self.dataset.graph
        with matmul_precision(settings.precision):
            with implementation("auto"):
                state, inputs, method = self._trained()
                rows = random_rows(graph.n, min(settings.n_clusters, graph.n), settings.n_restarts, state.rng)
                with torch.no_grad():
                    h, t = method.encoder(inputs.propagated), method.target(inputs.propagated)
                fast = self._results(method, inputs.propagated, h, t, rows)
            with implementation("reference"):
                propagated = propagate(graph.to(self.device), settings.n_hops)
                reference = self._results(method, propagated, h, t, rows)
        found = {name: _distance(fast[name], reference[name]) for name in fast}
        found["similarity"] = float((fast["similarity"] - reference["similarity"]).abs().max())
        for name, bound in self._bounds().items():
            if not found[name] <= bound:
                raise AfgrlError(
                    f"The fast path and the reference disagree on {self.dataset.name}: {name} by {found[name]:.1e}, "
                    f"and the limit is {bound:.0e}; no times are reported."
                )
        return found

    def _bounds(self) -> dict[str, float]:
        coarse = self.device.type == "cuda" and self.settings.precision != "float32"
        return {
            "vectors": 2e-3 if coarse else 1e-4,  # tf32 has 10 bits, and sums lose few of them
            "similarity": 5e-3 if coarse else 1e-4,  # of the worst k-th neighbor: bf16 may choose one nearly as near
            "inertia": 1e-2 if coarse else 1e-3,
            "loss": 1e-3 if coarse else 1e-4,
            "gradient": 5e-3 if coarse else 1e-3,
        }

    def _results(self, method: AFGRLMethod, x: Propagated, h: Tensor, t: Tensor, rows: Tensor) -> dict[str, Tensor]:
        settings = self.settings
        with torch.no_grad():
            vectors = method.encoder(x)
        _, near = candidate_pairs(h, t, settings.n_neighbors, settings.include_self, settings.precision)
        k = near.numel() // h.shape[0]
        similarity = F.cosine_similarity(h.repeat_interleave(k, 0), t[near]).view(-1, k)
        clusters = run_kmeans(
            t, rows.shape[1], unit=True, n_restarts=len(rows), n_iters=settings.kmeans_iters, rows=rows,
            precision=settings.precision,
        )  # fmt: skip
        leaf = h.clone().requires_grad_()
        assert method.search.matrix is not None
        loss = positive_pair_loss(method.predictor(leaf), t, method.search.matrix, over=settings.loss_over)
        (gradient,) = torch.autograd.grad(loss, leaf)
        return {
            "vectors": vectors, "similarity": similarity.amin(1), "inertia": clusters.inertia, "loss": loss.detach(),
            "gradient": gradient,
        }  # fmt: skip


def _distance(a: Tensor, b: Tensor) -> float:
    """|a - b| / |b|."""
    return float((a.double() - b.double()).norm() / b.double().norm().clamp(min=1e-30))
