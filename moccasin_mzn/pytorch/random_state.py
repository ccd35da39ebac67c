"""Refuses steps that set the random state: a plan draws on from the state at its call.

`torch.manual_seed`, `torch.set_rng_state`, `torch.random.fork_rng` and those of CUDA call methods of the default
generators, which are noted; generators' methods that the network itself calls are noted where it is run. Nothing is
refused where a state is only put back, and no operator of the step draws.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from types import FrameType
from typing import TYPE_CHECKING, Any
from unittest import mock

from moccasin_mzn.graphs.importers.torch.spec import line_here
from moccasin_mzn.pytorch.errors import UntraceableError

if TYPE_CHECKING:
    import torch

_SETTING = frozenset(("manual_seed", "seed", "set_state", "graphsafe_set_state", "set_offset"))
_READING = frozenset(("get_state", "graphsafe_get_state", "initial_seed", "get_offset"))


@dataclass
class RandomState:
    """What a step does to random states."""

    network: torch.nn.Module
    set_at: str = ""
    """The line that sets one first."""
    changed_at: str = ""
    """The line that sets one first to another than it is in."""
    seeds: list[torch.Generator] = field(default_factory=list)
    """Generators whose seed the step has read."""
    states: list[torch.Tensor] = field(default_factory=list)
    """States that the step has read as tensors."""
    _running: bool = False

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Note what is done meanwhile."""
        import torch

        with contextlib.ExitStack() as stack:
            stack.enter_context(
                mock.patch.object(torch.random, "default_generator", _Noted(torch.default_generator, self))
            )
            if torch.cuda.is_initialized():
                generators = tuple(_Noted(each, self) for each in torch.cuda.default_generators)
                stack.enter_context(mock.patch.object(torch.cuda, "default_generators", generators))
            self._running = True
            try:
                yield
            finally:
                self._running = False

    def called(self, frame: FrameType, function: Any) -> None:
        """Note a call of a function of C, where it is a generator's that sets its state."""
        import torch

        if not self._running or getattr(function, "__name__", "") not in _SETTING:
            return
        if isinstance(getattr(function, "__self__", None), torch.Generator) and frame.f_code is not _CALLS:
            self.changes(frame)

    def changes(self, frame: FrameType | None = None) -> None:
        """Note that a state is set to another."""
        self.changed_at = self.changed_at or line_here(self.network, frame) or "the line is not known"
        self.set_at = self.set_at or self.changed_at

    def check(self, draws: bool) -> None:
        """Refuse a step that sets a state.

        Args:
            draws: an operator of the step takes random numbers.

        Raises:
            UntraceableError: it does; names the line.
        """
        place = self.set_at if draws else self.changed_at
        if place:
            raise UntraceableError(
                f"the network sets the random state, which a plan would not do: {place}; leave that out, and write "
                "checkpoints by torch.utils.checkpoint"
            )


class _Noted:
    """A default generator, for PyTorch's own functions; what they do is noted."""

    def __init__(self, generator: torch.Generator, noted: RandomState) -> None:
        self._generator, self._noted = generator, noted

    def __getattr__(self, name: str) -> Any:
        if name in _SETTING or name in _READING:
            return lambda *args: _call(self._generator, self._noted, name, args)
        return getattr(self._generator, name)


def _equal(one: torch.Tensor, other: torch.Tensor) -> bool:
    import torch
    from torch.utils._python_dispatch import _disable_current_modes

    with _disable_current_modes(), torch._C.DisableTorchFunction():
        return torch.equal(one, other)


def _call(generator: torch.Generator, noted: RandomState, name: str, args: tuple[Any, ...]) -> Any:
    import torch

    method = getattr(generator, name)
    if name == "set_state" and _equal(args[0], generator.get_state()):
        noted.set_at = noted.set_at or line_here(noted.network) or "the line is not known"
    elif name in _SETTING:
        noted.changes()
    elif name == "initial_seed":
        noted.seeds.append(generator)
    made = method(*args)
    if isinstance(made, torch.Tensor):
        noted.states.append(made)
    return made


_CALLS = _call.__code__
