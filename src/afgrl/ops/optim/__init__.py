"""Updates of all parameters at once: Adam, and the exponential moving average of the target."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from afgrl.ops.dispatch import takes_kernels


class Adam(torch.optim.Adam):
    """PyTorch's Adam, or AdamW if ``decoupled``, with the same state; on a GPU one kernel updates all parameters.

    PyTorch's fused kernel gives a block of the GPU 65,536 numbers, so that the million parameters of an encoder occupy
    a sixth of an H200. On a GPU the learning rate is a tensor, so that a captured step reads its current value. On a
    CPU, ``fused`` takes PyTorch's fused version: three times faster, with other roundings.
    """

    def __init__(
        self,
        parameters: Sequence[Tensor],
        learning_rate: float,
        *,
        weight_decay: float,
        decoupled: bool,
        fused: bool = False,
    ) -> None:
        on_gpu = any(parameter.is_cuda for parameter in parameters)
        super().__init__(
            parameters,
            lr=torch.tensor(learning_rate, device=parameters[0].device) if on_gpu else learning_rate,
            weight_decay=weight_decay,
            decoupled_weight_decay=decoupled,
            fused=on_gpu or fused,
            capturable=on_gpu,  # its step counter is on the GPU too
        )

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """As PyTorch's, except that device-specific options stay: a run may continue on another device."""
        device_options = [{name: group[name] for name in ("lr", "fused", "capturable")} for group in self.param_groups]
        super().load_state_dict(state_dict)
        for group, options in zip(self.param_groups, device_options, strict=True):
            rate = float(group["lr"])
            group |= options
            self._set_rate(group, rate)

    def set_learning_rate(self, value: float) -> None:
        for group in self.param_groups:
            self._set_rate(group, value)

    @staticmethod
    def _set_rate(group: dict[str, Any], rate: float) -> None:
        if isinstance(group["lr"], Tensor):
            group["lr"].fill_(rate)
        else:
            group["lr"] = rate

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> Any:
        (group,) = self.param_groups  # __init__ creates one
        updated = [parameter for parameter in group["params"] if parameter.grad is not None]
        if closure is not None or not updated or not takes_kernels(updated[0]):
            return super().step(closure)
        for parameter in updated:
            if not self.state[parameter]:
                self.state[parameter] = {
                    "step": torch.zeros((), device=parameter.device),
                    "exp_avg": torch.zeros_like(parameter),
                    "exp_avg_sq": torch.zeros_like(parameter),
                }
        from afgrl.ops.optim.triton import adam_step_triton

        adam_step_triton(updated, self.state, group)
        return None


def lerp_parameters(targets: Sequence[Tensor], sources: Sequence[Tensor], weight: float) -> None:
    """``target += weight · (source - target)`` for each pair, in place."""
    if takes_kernels(targets[0]):
        from afgrl.ops.optim.triton import lerp_parameters_triton

        lerp_parameters_triton(targets, sources, weight)
    else:
        torch._foreach_lerp_(list(targets), list(sources), weight)
