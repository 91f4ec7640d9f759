"""What is measured of one dataset: epochs, their stages, and whether both paths agree."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from afgrl.bench.epochs import epoch
from afgrl.bench.measure import implementation, median_seconds, recorded
from afgrl.errors import AfgrlError
from afgrl.estimate import Workload, arithmetic
from afgrl.estimate import peak_memory as predicted_memory
from afgrl.graph import Graph
from afgrl.methods.afgrl import AFGRLConfig, AFGRLMethod, Inputs
from afgrl.nn import Progress, follow
from afgrl.ops import Propagated, kmeans, pair_loss, propagate, random_rows
from afgrl.positives import nearest
from afgrl.steps import matmul_precision, plain_step, side_stream
from afgrl.train import State, start


@dataclass(frozen=True)
class Subject:
    name: str
    graph: Graph
    config: AFGRLConfig
    device: torch.device
    seconds: float

    def epochs(self, rates: dict[str, float]) -> dict[str, Any]:
        work = Workload.of(self.graph, self.device.type)
        needed = arithmetic(self.config, work)
        warmer = self.config.model_copy(update={"warm_start": True})
        (reference, _), (fast, peak), (warm, _) = (
            epoch("afgrl", config, self.graph, self.device, choice, self.seconds)
            for choice, config in (("reference", self.config), ("auto", self.config), ("auto", warmer))
        )
        return {
            "reference_ms": 1e3 * reference,
            "fast_ms": 1e3 * fast,
            "warm_ms": 1e3 * warm,  # the same with k-means started from the last centers
            "limit_ms": 1e3
            * (needed.train / rates["train"] + needed.search / rates["search"] / self.config.refresh_every),
            "speedup": reference / fast,
            "peak_bytes": peak,
            "predicted_bytes": predicted_memory(self.config, work),
        }

    def stages(self, rates: dict[str, float]) -> list[dict[str, Any]]:
        """Of each part of an epoch: the reference, the fast path, the limit."""
        times: dict[str, dict[str, float]] = {}
        for choice in ("reference", "auto"):
            with implementation(choice), matmul_precision(self.config.precision):
                for stage, call in self._calls().items():
                    records = choice == "auto" and self.device.type == "cuda" and stage != "propagate"
                    with side_stream(self.device):
                        made = recorded(call) if records else call
                        times.setdefault(stage, {})[choice] = median_seconds(made, self.device, self.seconds / 4)
        limits = self._limits(rates)
        return [
            {
                "dataset": self.name, "stage": stage, "reference_ms": 1e3 * time["reference"],
                "fast_ms": 1e3 * time["auto"], "limit_ms": limits.get(stage),
                "speedup": time["reference"] / time["auto"],
            }
            for stage, time in times.items()
        ]  # fmt: skip

    def _calls(self) -> dict[str, Callable[[], Any]]:
        config = self.config
        state, inputs, method = self._trained()
        x = inputs.propagated
        with torch.no_grad():
            h, t = method.encoder(x), method.target(x)
        rows = random_rows(h.shape[0], min(config.n_clusters, h.shape[0]), config.n_restarts, state.rng)
        graph = self.graph.to(self.device)
        leaf, matrix = h.clone().requires_grad_(), method.matrix
        assert matrix is not None

        def encode() -> None:
            method.encoder(x)
            with torch.no_grad():
                method.target(x)

        def step() -> None:
            loss = pair_loss(method.predictor(leaf), t, matrix, over=config.loss_over)
            state.optimizer.zero_grad()
            leaf.grad = None
            loss.backward()
            # The way back through the first layer, which an epoch takes too.
            method.encoder(x).backward(leaf.grad)
            state.optimizer.step()
            follow(method.target, method.encoder, 0.99)

        return {
            "propagate": lambda: propagate(graph, config.n_hops or 0),
            "encode": encode,
            "k-NN": lambda: nearest(h, t, config.n_neighbors, config.include_self, config.precision),
            "k-means": lambda: kmeans(
                t, rows.shape[1], unit=True, n_restarts=config.n_restarts, n_iters=config.kmeans_iters, rows=rows,
                precision=config.precision,
            ),
            "loss and step": step,
        }  # fmt: skip

    def _trained(self) -> tuple[State, Inputs, AFGRLMethod]:
        """After two epochs, when there are positives and the vectors have moved."""
        state, inputs = start("afgrl", self.config, self.graph, self.device)
        method = state.method
        assert isinstance(method, AFGRLMethod)
        method.train()
        for step in (1, 2):
            plain_step(method, state.optimizer, state.rng, inputs)
            method.after_step(Progress(step, 1000))
        return state, inputs, method

    def _limits(self, rates: dict[str, float]) -> dict[str, float]:
        needed = arithmetic(self.config, Workload.of(self.graph, self.device.type))
        return {
            "encode": 2e3 * needed.encode / rates["train"],
            "k-NN": 1e3 * needed.neighbors / rates["search"],
            "k-means": 1e3 * needed.clusters / rates["search"],
            # With the way back through the encoder, for which this stage goes forth once more.
            "loss and step": 1e3 * (3 * needed.predict + 2 * needed.encode) / rates["train"],
        }

    def agreement(self) -> dict[str, float]:
        """How far the fast path is from the reference, on the same vectors; too far raises."""
        config = self.config
        with matmul_precision(self.config.precision):
            with implementation("auto"):
                state, inputs, method = self._trained()
                rows = random_rows(self.graph.n, min(config.n_clusters, self.graph.n), config.n_restarts, state.rng)
                with torch.no_grad():
                    h, t = method.encoder(inputs.propagated), method.target(inputs.propagated)
                fast = self._results(method, inputs.propagated, h, t, rows)
            with implementation("reference"):
                plain = self._results(method, propagate(self.graph.to(self.device), config.n_hops or 0), h, t, rows)
        coarse = self.device.type == "cuda" and config.precision != "float32"
        bounds = {
            "vectors": 2e-3 if coarse else 1e-4,  # tf32 keeps 10 bits, of which sums lose few
            "similarity": 5e-3 if coarse else 1e-4,  # of the worst k-th neighbor: bf16 may miss one nearly as near
            "inertia": 1e-2 if coarse else 1e-3,
            "loss": 1e-3 if coarse else 1e-4,
            "gradient": 5e-3 if coarse else 1e-3,
        }
        found = {name: _distance(fast[name], plain[name]) for name in bounds}
        found["similarity"] = float((fast["similarity"] - plain["similarity"]).abs().max())
        for name, bound in bounds.items():
            if not found[name] <= bound:
                raise AfgrlError(
                    f"The fast path and the reference disagree on {self.name}: {name} by {found[name]:.1e}, "
                    f"where {bound:.0e} is allowed; nothing is reported."
                )
        return found

    def _results(self, method: AFGRLMethod, x: Propagated, h: Tensor, t: Tensor, rows: Tensor) -> dict[str, Tensor]:
        config = self.config
        with torch.no_grad():
            vectors = method.encoder(x)
        _, near = nearest(h, t, config.n_neighbors, config.include_self, config.precision)
        k = near.numel() // h.shape[0]
        similarity = F.cosine_similarity(h.repeat_interleave(k, 0), t[near]).view(-1, k)
        clusters = kmeans(
            t, rows.shape[1], unit=True, n_restarts=len(rows), n_iters=config.kmeans_iters, rows=rows,
            precision=config.precision,
        )  # fmt: skip
        leaf = h.clone().requires_grad_()
        assert method.matrix is not None
        loss = pair_loss(method.predictor(leaf), t, method.matrix, over=config.loss_over)
        (gradient,) = torch.autograd.grad(loss, leaf)
        return {
            "vectors": vectors, "similarity": similarity.amin(1), "inertia": clusters.inertia, "loss": loss.detach(),
            "gradient": gradient,
        }  # fmt: skip


def _distance(a: Tensor, b: Tensor) -> float:
    """|a - b| / |b|."""
    return float((a.double() - b.double()).norm() / b.double().norm().clamp(min=1e-30))
