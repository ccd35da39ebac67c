"""A process in which operators are called on tensors made up for that, and which may die of it.

Kernels take much for granted: a mask of gradients that autograd never asks for, or indices that are all zero, can end
the process. So the user's own process calls nothing but what the network calls, and asks this one: ::

    user's process                      this process
                              <------   Ready()
        Job(settings, calls)  ------>
                              <------   Begun(0), Memory(0, workspace, output_bytes)
                              <------   Sample(0, nanoseconds, workspace, output_bytes), or Failed(0)
                              <------   Begun(1)              ... it dies here: the call 1 is at fault
"""

from __future__ import annotations

import contextlib
import os
import statistics
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING

from moccasin_mzn.base.clock import Deadline

if TYPE_CHECKING:
    from torch.utils._pytree import PyTree

IDLE_SECONDS = 30.0
"""A worker that is asked nothing for so long ends, as it holds some hundred MB."""
_ENOUGH = 0.5
"""Seconds after which an operator is not called once more."""
_MOMENT = 0.5
"""Seconds for the memory of some calls, before their time is measured."""
_SHORTEST = 50_000
"""Nanoseconds: short calls are timed in groups so large that they take about as long."""


@dataclass(frozen=True)
class TensorLike:
    """What a tensor is like, so that one can be made."""

    shape: tuple[int, ...]
    stride: tuple[int, ...]
    dtype: str
    device: str


@dataclass(frozen=True)
class Argument:
    """Stands for the value of a traced node in the arguments of a call."""

    number: int
    """In `OperatorCall.values`."""


@dataclass(frozen=True)
class OperatorCall:
    """A call of an operator of `torch.ops`, as in a trace."""

    operator: tuple[str, str, str]
    """Namespace, name and overload, such as ("aten", "add", "Tensor")."""
    args: PyTree
    kwargs: PyTree
    values: tuple[PyTree, ...]
    """Values of the nodes that are read: trees of `TensorLike` and constants."""
    device: str
    """Whose memory and time are measured."""


@dataclass(frozen=True)
class OperatorSettings:
    """How PyTorch is set to compute."""

    threads: int
    onednn: bool
    cudnn: tuple[bool, bool, bool]
    """Enabled, benchmark, deterministic."""
    matmul_precision: str
    deterministic: tuple[bool, bool]
    """Algorithms; whether only a warning is given where there are none."""

    @classmethod
    def current(cls) -> OperatorSettings:
        """The settings of this process."""
        import torch

        cudnn = torch.backends.cudnn
        return cls(
            torch.get_num_threads(), bool(torch.backends.mkldnn.enabled),
            (bool(cudnn.enabled), bool(cudnn.benchmark), bool(cudnn.deterministic)),
            torch.get_float32_matmul_precision(),
            (torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()),
        )  # fmt: skip

    @contextlib.contextmanager
    def applied(self) -> Iterator[None]:
        """Meanwhile this process computes like that."""
        import torch

        enabled, benchmark, deterministic = self.cudnn
        torch.set_num_threads(self.threads)
        torch.set_float32_matmul_precision(self.matmul_precision)
        torch.use_deterministic_algorithms(self.deterministic[0], warn_only=self.deterministic[1])
        with (
            torch.backends.mkldnn.flags(enabled=self.onednn),
            torch.backends.cudnn.flags(enabled=enabled, benchmark=benchmark, deterministic=deterministic),
        ):
            yield


@dataclass(frozen=True)
class Job:
    """What to measure."""

    settings: OperatorSettings
    calls: tuple[tuple[int, bytes, int], ...]
    """The number of a call, the call (an `OperatorCall`, pickled), and how many samples to take."""
    seconds: float | None = None
    """Time to take samples; None: as much as that takes."""
    longest: float | None = None
    """Time for all; no call is begun after it."""


@dataclass(frozen=True)
class Ready:
    """PyTorch is imported, jobs can come."""


@dataclass(frozen=True)
class Begun:
    """A call is about to be made."""

    number: int


@dataclass(frozen=True)
class Failed:
    """The operator has raised an exception, or cannot be called here."""

    number: int


@dataclass(frozen=True)
class Memory:
    """What memory a call takes."""

    number: int
    workspace: int
    """Bytes at the worst in addition to inputs and outputs."""
    output_bytes: int
    """Bytes left given out for the outputs."""


@dataclass(frozen=True)
class Sample:
    """What one call has taken."""

    number: int
    nanoseconds: float
    """CPU time of the calling thread, or time of another device."""
    workspace: int
    """Bytes at the worst in addition to inputs and outputs."""
    output_bytes: int
    """Bytes left given out for the outputs."""


@dataclass(frozen=True)
class Done:
    """All calls of a job have been made."""


@dataclass
class _CallMeasured:
    """A call, and what is known of it."""

    number: int
    call: OperatorCall
    workspace: int | None = None
    output_bytes: int = 0
    spent: float = 0.0
    """Seconds."""

    def prepared(self) -> Callable[[], object]:
        """The call as it is made a second time, for the first may prepare something that is kept.

        Raises:
            Exception: see `sample`.
        """
        target, args, kwargs = _made(self.call)
        target(*args, **kwargs)
        return lambda: target(*args, **kwargs)

    def sample(self) -> Sample | None:
        """Call the operator once more; None if it has taken long enough.

        Raises:
            Exception: made-up numbers do not suit it, such as indices out of range, or there is not the memory.
        """
        if self.spent > _ENOUGH:
            return None
        from moccasin_mzn.pytorch.measuring import peak_and_end

        began = time.monotonic()
        call = self.prepared()
        if self.workspace is None:
            self.takes(*peak_and_end(call, self.call.device))
        took = _nanoseconds(call, self.call.device)
        self.spent += time.monotonic() - began
        return Sample(self.number, took, self.workspace or 0, self.output_bytes)

    def takes(self, peak: int, end: int) -> None:
        """Note bytes at the worst, and of what is left."""
        self.output_bytes, self.workspace = end, max(0, peak - end)


def _made(call: OperatorCall) -> tuple[Callable[..., PyTree], PyTree, PyTree]:
    import torch
    from torch.utils._pytree import tree_map

    from moccasin_mzn.graphs.importers.torch.graph import real_tensor
    from moccasin_mzn.graphs.importers.torch.memory import STATE

    def real(leaf: object) -> object:
        if not isinstance(leaf, TensorLike):
            return leaf
        like = torch.empty_strided(leaf.shape, leaf.stride, dtype=getattr(torch, leaf.dtype), device="meta")
        return real_tensor(like, STATE, leaf.device)

    values = [tree_map(real, value) for value in call.values]

    def given(leaf: object) -> object:
        return values[leaf.number] if isinstance(leaf, Argument) else leaf

    namespace, name, overload = call.operator
    target = getattr(getattr(getattr(torch.ops, namespace), name), overload)
    return target, tree_map(given, call.args), tree_map(given, call.kwargs)


def _nanoseconds(call: Callable[[], object], device: str) -> float:
    """CPU time of this thread for a call, of many for a short one; of another device until it has done all."""
    from moccasin_mzn.pytorch.measuring import nanoseconds_of

    calls = 1
    while True:
        start = nanoseconds_of(device)
        for _ in range(calls):
            call()
        took = nanoseconds_of(device) - start
        if calls > 1 or took >= _SHORTEST:
            return took / calls
        calls = 1 + _SHORTEST // max(took, 1000)


def work(job: Job, asker: Connection) -> None:
    """Make the calls of a job in turns, so that a machine that is slower for a while is so for all."""
    import torch

    from moccasin_mzn.graphs.importers.torch.graph import no_denormals
    from moccasin_mzn.graphs.importers.torch.trace import quiet

    measured: dict[int, _CallMeasured] = {}
    samples = {number: count for number, _, count in job.calls}
    deadline, end, waiting = Deadline(job.seconds), Deadline(job.longest), deque(job.calls)

    def sample(number: int) -> None:
        asker.send(Begun(number))
        try:
            found = measured[number].sample()
            if found is not None:
                asker.send(found)
        except Exception:
            del measured[number]
            asker.send(Failed(number))

    with quiet(), job.settings.applied(), torch.no_grad(), no_denormals():
        torch.manual_seed(0)
        while waiting and not end.over():
            for number in _memory_of_some(waiting, measured, asker, end):
                if not end.over() and (not deadline.over() or measured[number].workspace is None):
                    sample(number)
        for turn in range(1, max(samples.values(), default=0)):
            for number in [*measured]:
                if turn < samples[number] and not deadline.over() and not end.over():
                    sample(number)
    if torch.cuda.is_initialized():
        torch.cuda.empty_cache()
    asker.send(Done())


def _memory_of_some(
    waiting: deque[tuple[int, bytes, int]], measured: dict[int, _CallMeasured], asker: Connection, end: Deadline
) -> list[int]:
    """Take the memory of the first calls that wait, as many as a moment allows; the numbers of those that did not fail.

    Where it is not the CPU's memory, it is taken with the time.
    """
    import pickle

    from moccasin_mzn.pytorch.measuring import peaks_and_ends

    moment, numbers, elsewhere = Deadline(_MOMENT), list[int](), list[int]()

    def calls() -> Iterator[Callable[[], object]]:
        while waiting and not end.over() and not (moment.over() and (numbers or elsewhere)):
            number, pickled, _ = waiting.popleft()
            asker.send(Begun(number))
            try:
                measured[number] = each = _CallMeasured(number, pickle.loads(pickled))
                if each.call.device.partition(":")[0] != "cpu":
                    elsewhere.append(number)
                    continue
                prepared = each.prepared()
            except Exception:
                measured.pop(number, None)
                asker.send(Failed(number))
                continue
            numbers.append(number)
            yield prepared

    for number, found in zip(numbers, peaks_and_ends(calls()), strict=True):
        if found is None:
            del measured[number]
            asker.send(Failed(number))
        else:
            each = measured[number]
            each.takes(*found)
            asker.send(Memory(number, each.workspace or 0, each.output_bytes))
    return [*elsewhere, *(number for number in numbers if number in measured)]


def main() -> None:
    """Do the jobs that come in by the connection whose file descriptor is the argument, until that is closed."""
    import torch  # noqa: F401 - while nobody waits for it

    asker = Connection(int(sys.argv[1]))
    with contextlib.suppress(EOFError, OSError):
        asker.send(Ready())
        while asker.poll(IDLE_SECONDS):
            work(asker.recv(), asker)
    os._exit(0)  # nothing is to be put in order, and libraries that have been damaged might not end


@dataclass
class Findings:
    """What the worker has reported about a call."""

    samples: list[float] = field(default_factory=list)
    workspace: int = 0
    output_bytes: int = 0
    failed: bool = False
    called: bool = False
    crashed: bool = False
    """The process has crashed in it."""

    def note(self, memory: Memory) -> None:
        """Take into account what memory it takes."""
        self.called, self.workspace, self.output_bytes = True, memory.workspace, memory.output_bytes

    def add(self, sample: Sample) -> None:
        """Take a sample into account."""
        self.samples.append(sample.nanoseconds)
        self.called, self.workspace, self.output_bytes = True, sample.workspace, sample.output_bytes

    @property
    def nanoseconds(self) -> int:
        """The median, at least 1; 1 if there is none."""
        return max(1, round(statistics.median(self.samples or [1])))
