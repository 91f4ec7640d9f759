"""Rows of a graph over several processes, and the few operations by which the processes communicate.

All of them are PyTorch's own (``torch.distributed``: NCCL on GPUs, Gloo on CPUs). A sum adds the parts of the processes
in the order of their ranks, so that the same number of processes gives the same bits; ``all_reduce`` promises no order.
With one process every function returns its argument, and ``torch.distributed`` is not needed.

Operations dispatch by ``Shards.distributed``: whether their tables have the rows of one of several processes. That is
so also for a single process that torchrun started, which computes what any number of processes would. A process without
torchrun takes the versions that are fastest on its device.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor

# Bytes that this process sent to others since it started, by operation; docs/scale.md predicts them.
sent_bytes: Counter[str] = Counter()


@dataclass(frozen=True)
class Shards:
    """Which rows of ``n`` each process has: contiguous ranges of equal length, the last ones shorter or empty.

    These are the ranges of ``torch.chunk`` and of a ``DTensor``, so that a checkpoint can be read by another number of
    processes.
    """

    n: int
    rank: int = 0
    size: int = 1  # number of processes
    distributed: bool = False  # whether torchrun started them

    def __post_init__(self) -> None:
        assert self.distributed or self.size == 1, "several processes are distributed"

    @property
    def rows_each(self) -> int:
        return math.ceil(self.n / self.size)

    @property
    def begin(self) -> int:
        return self.begin_of(self.rank)

    @property
    def end(self) -> int:
        return self.begin_of(self.rank + 1)

    @property
    def n_own(self) -> int:
        return self.end - self.begin

    def begin_of(self, rank: int) -> int:
        """The first row of a process; of ``rank + 1``, one past its last row."""
        return min(rank * self.rows_each, self.n)

    def owns(self, rows: Tensor) -> Tensor:
        """Which of these rows, numbered over all processes, are here: [rows] bool."""
        return (rows >= self.begin) & (rows < self.end)

    def part_of(self, rows: slice) -> slice:
        """The part of a slice of all rows that is here, numbered from the first row here."""
        start, stop, step = rows.indices(self.n)
        first = start + max(0, math.ceil((self.begin - start) / step)) * step
        return slice(first - self.begin, max(min(stop, self.end), first) - self.begin, step)

    def sum(self, part: Tensor) -> Tensor:
        """The sum over all processes, added in the order of their ranks.

        Each process adds up one piece of the tensor and sends the sum to all: as many bytes as a ring all-reduce.
        """
        if self.size == 1:
            return part
        flat = part.reshape(-1)
        each = math.ceil(flat.numel() / self.size)
        padded = flat.new_zeros(self.size * each)
        padded[: flat.numel()] = flat
        pieces = torch.empty_like(padded)
        dist.all_to_all_single(pieces, padded)
        total, *others = pieces.view(self.size, each)
        for other in others:
            total = total + other
        _count("sum", 2 * (self.size - 1) * _bytes(total))
        _all_gather(padded, total.contiguous())
        return padded[: flat.numel()].view(part.shape)

    def any(self, flag: bool, device: torch.device) -> bool:
        """Whether the flag is set in any process."""
        return bool(self.sum(torch.tensor([int(flag)], device=device)) > 0)

    def gather(self, own: Tensor) -> Tensor:
        """The rows of all processes, from those here: [n_own, …] becomes [n, …]."""
        if self.size == 1:
            return own
        padded = own.new_zeros(self.rows_each, *own.shape[1:])
        padded[: self.n_own] = own
        rows = padded.new_empty(self.size * self.rows_each, *own.shape[1:])
        _all_gather(rows, padded)
        _count("gather", (self.size - 1) * _bytes(padded))
        return rows[: self.n]

    def gather_labels(self, own: Tensor, n_labels: int) -> Tensor:
        """The labels below ``n_labels`` of all rows, from those here: [m, n_own] becomes [m, n]; as small integers if
        they are sent."""
        if not self.distributed:
            return own
        small = own.to(torch.uint8 if n_labels <= 256 else torch.int32)
        return self.gather(small.T.contiguous()).T.contiguous()

    def take(self, own: Tensor, rows: Tensor) -> Tensor:
        """The rows with these numbers, in every process, from the rows here: [n_own, d] becomes [rows, d]."""
        here = self.owns(rows)
        return self.joined(own[rows[here] - self.begin], here)

    def joined(self, part: Tensor, is_here: Tensor) -> Tensor:
        """Some rows of all processes, in the same order everywhere; ``part`` are those for which ``is_here``."""
        if self.size == 1:
            return part
        rows = part.new_zeros(len(is_here), *part.shape[1:])
        rows[is_here] = part
        return self.sum(rows)  # exact: in each row all but one of the parts are zero

    def swap(self, parts: Sequence[Tensor]) -> list[Tensor]:
        """Sends ``parts[r]`` [any, …] to process r; returns what each process sent here (all-to-all)."""
        if self.size == 1:
            return list(parts)
        device, rest = parts[0].device, parts[0].shape[1:]
        sent = torch.tensor([len(part) for part in parts], device=device)
        received = torch.empty_like(sent)
        dist.all_to_all_single(received, sent)
        counts = received.tolist()
        outgoing = torch.cat(list(parts))
        incoming = outgoing.new_empty(sum(counts), *rest)
        dist.all_to_all_single(incoming, outgoing, counts, sent.tolist())
        _count("swap", (self.size - 1) * 8 + _bytes(outgoing) - _bytes(parts[self.rank]))
        return list(incoming.split(counts))

    def blocks(self, own: Tensor, size: int) -> Iterator[Tensor]:
        """The rows of all processes in blocks, in order, in process 0; the others only send theirs."""
        for rank in range(self.size):
            n = self.begin_of(rank + 1) - self.begin_of(rank)
            for start in range(0, n, size):
                rows = slice(start, min(start + size, n))
                if rank == self.rank == 0:
                    yield own[rows]
                elif self.rank == 0:
                    block = own.new_empty(rows.stop - start, *own.shape[1:])
                    dist.recv(block, rank)
                    yield block
                elif rank == self.rank:
                    dist.send(own[rows].contiguous(), 0)
                    _count("blocks", _bytes(own[rows]))

    def ring(self, block: Tensor) -> Iterator[tuple[int, Tensor]]:
        """The block of every process with its rank, the own one first. All blocks have the same shape.

        Each process sends the block it has to the next one; this happens while the caller works with it.
        """
        for step in range(self.size):
            requests, incoming = [], block
            if step < self.size - 1:
                incoming = torch.empty_like(block)
                send = dist.P2POp(dist.isend, block, (self.rank + 1) % self.size)
                receive = dist.P2POp(dist.irecv, incoming, (self.rank - 1) % self.size)
                requests = dist.batch_isend_irecv([send, receive])
                _count("ring", _bytes(block))
            yield (self.rank - step) % self.size, block
            for request in requests:
                request.wait()
            block = incoming


ONE_PROCESS = Shards(0)  # for operations on tables whose number of rows does not matter


def sum_gradients(loss: Tensor, parameters: Iterable[Tensor], shards: Shards) -> Tensor:
    """The loss of all processes from their parts of it; the gradients of the parameters become those of that loss."""
    if not shards.distributed:
        return loss
    learned = [parameter for parameter in parameters if parameter.requires_grad]
    parts = [torch.zeros_like(one) if one.grad is None else one.grad for one in learned]
    total = shards.sum(torch.cat([*(part.flatten() for part in parts), loss.detach().view(1)]))
    *gradients, value = total.split([*(part.numel() for part in parts), 1])
    for parameter, gradient in zip(learned, gradients, strict=True):
        parameter.grad = gradient.view(parameter.shape)
    return value[0]


def _all_gather(rows: Tensor, own: Tensor) -> None:
    gather = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor  # the name before torch 2.13
    gather(rows, own)


def _bytes(part: Tensor) -> int:
    return part.numel() * part.element_size()


def _count(operation: str, n_bytes: int) -> None:
    sent_bytes[operation] += n_bytes
