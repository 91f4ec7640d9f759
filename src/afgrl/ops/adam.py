"""What moves all parameters at once: Adam, and the target that follows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from afgrl.ops.dispatch import takes_kernels


class Adam(torch.optim.Adam):
    """PyTorch's Adam or, ``decoupled``, its AdamW, with the same state; on a GPU one kernel moves everything.

    PyTorch's own fused kernel gives a block of the GPU 65,536 numbers, so that the million parameters of an encoder
    keep a sixth of an H200 busy. The learning rate is a tensor there: a recorded step reads it anew each time.
    """

    def __init__(
        self, parameters: Sequence[Tensor], learning_rate: float, *, weight_decay: float, decoupled: bool
    ) -> None:
        on_gpu = any(parameter.is_cuda for parameter in parameters)
        super().__init__(
            parameters,
            lr=torch.tensor(learning_rate, device=parameters[0].device) if on_gpu else learning_rate,
            weight_decay=weight_decay,
            decoupled_weight_decay=decoupled,
            fused=on_gpu,
            capturable=on_gpu,  # its step counter too lies on the GPU
        )

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """As PyTorch's, but what goes with the device stays: a training may go on on another."""
        own = [{name: group[name] for name in ("lr", "fused", "capturable")} for group in self.param_groups]
        super().load_state_dict(state_dict)
        for group, kept in zip(self.param_groups, own, strict=True):
            rate = float(group["lr"])
            group |= kept
            self._set(group, rate)

    def set_learning_rate(self, value: float) -> None:
        for group in self.param_groups:
            self._set(group, value)

    @staticmethod
    def _set(group: dict[str, Any], rate: float) -> None:
        if isinstance(group["lr"], Tensor):
            group["lr"].fill_(rate)
        else:
            group["lr"] = rate

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> Any:
        (group,) = self.param_groups  # as __init__ makes it
        moved = [parameter for parameter in group["params"] if parameter.grad is not None]
        if closure is not None or not moved or not takes_kernels(moved[0]):
            return super().step(closure)
        for parameter in moved:
            if not self.state[parameter]:
                self.state[parameter] = {
                    "step": torch.zeros((), device=parameter.device),
                    "exp_avg": torch.zeros_like(parameter),
                    "exp_avg_sq": torch.zeros_like(parameter),
                }
        from afgrl.ops.adam_triton import adam_kernel

        adam_kernel(moved, self.state, group)
        return None


def lerp_all(targets: Sequence[Tensor], sources: Sequence[Tensor], share: float) -> None:
    """Each target moves by ``share`` of its way to its source, in place."""
    if takes_kernels(targets[0]):
        from afgrl.ops.adam_triton import lerp_kernel

        lerp_kernel(targets, sources, share)
    else:
        torch._foreach_lerp_(list(targets), list(sources), share)
