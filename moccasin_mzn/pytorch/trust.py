"""Whether a plan is to be trusted: one planned step compared to the step as it is, from the same state.

Guards watch what a step is known to read; this sees whatever else makes it different. It is done once when a plan is
made, or, if there were no numbers or no memory for it, in the first call of the plan; on demand also in later calls.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from moccasin_mzn.base.doc_links import Page
from moccasin_mzn.base.errors import InputError, shown
from moccasin_mzn.base.log import note, underway
from moccasin_mzn.graphs.importers.torch.spec import one_line
from moccasin_mzn.pytorch.checkpoints import plain_checkpoints
from moccasin_mzn.pytorch.errors import OtherValueError, PlanError
from moccasin_mzn.pytorch.gradients import ACCUMULATED, RETURNED
from moccasin_mzn.pytorch.joint import TANGENT, Joint
from moccasin_mzn.pytorch.measuring import free_memory, lacks_memory
from moccasin_mzn.pytorch.steps import SAFELY, Copies, differences, scratch_of

if TYPE_CHECKING:
    import torch
    from torch.utils._pytree import PyTree

    from moccasin_mzn.pytorch.runtime import Runtime

_SHOWN = 3
"""The most names in a message of what differs."""
_Left = Mapping[str, "torch.Tensor | None"]
"""What a step returns and leaves behind, by name."""


@dataclass(frozen=True)
class Trust:
    """What came of comparing a planned step to the step as it is."""

    seconds: float = 0.0
    """What the comparison took."""
    known: str | None = None
    """A difference that is one of those the page on training lists; None: all is equal bit for bit."""
    left_out: str | None = None
    """Why nothing was compared; None: it was."""
    waits: bool = True
    """If nothing was compared: is the first call of the plan to be?"""

    def __str__(self) -> str:
        if self.left_out is not None:
            first = ", so that the first call is" if self.waits else ""
            return f"not compared to the step as it is{first}: {self.left_out}"
        differs = "equal to the step as it is, bit for bit" if self.known is None else f"not equal: {self.known}"
        return f"{differs}; compared in {self.seconds:.2f} s"


SWITCHED_OFF = Trust(left_out="switched off by verify=False", waits=False)
INTERRUPTED = Trust(left_out="it was interrupted")
NOT_YET = Trust(left_out="the plan was not made here")
"""The trust of a plan that was read from a file, or made where nothing is run."""


def room_for(need: int, device: str, measured: bool = False) -> str | None:
    """Why there is not the memory to compare a step; None: there is.

    Args:
        need: bytes that the step as it is takes.
        measured: it has been run, so that they are no forecast.
    """
    free = free_memory(device)
    if free is None:
        return "how much memory is free is not known here"
    times = 2 if measured else SAFELY
    return f"{times} times the memory of the step is not free" if times * need > free else None


def trusted(
    copies: Copies, planned: Callable[..., PyTree], eager: Callable[..., PyTree], joints: Sequence[Joint]
) -> Trust:
    """Compare a planned step to the step as it is, both on scratch copies of the state.

    Args:
        joints: what was traced, for the coarsest numbers in it.

    Raises:
        OtherCallError: the plan is not for this call, as when the first call of the network changes its state.
        PlanError: they differ, and not in a way that is known.
    """
    began = time.monotonic()
    with underway("comparing a planned step to the step as it is"):
        try:
            wanted = _left(copies, eager)
        except Exception as error:  # such as indices out of range, where it is enough to know how many there are
            return Trust(left_out=f"the step as it is ends with {type(error).__name__} on these inputs")
        try:
            found = _left(copies, planned)
        except InputError:
            raise
        except Exception as error:
            if isinstance(error, RuntimeError) and lacks_memory(error):
                return Trust(left_out="there is too little memory for a second step")
            text = f"ends with {type(error).__name__} ({one_line(error)}), the step as it is does not"
            raise PlanError(f"the planned step {text}", Page.SAME) from error
        known = _known(wanted, found, copies, eager, joints)
    return Trust(time.monotonic() - began, known)


def _left(copies: Copies, call: Callable[..., PyTree]) -> _Left:
    with copies() as scratch:
        outputs = scratch.step(call)
        return {**outputs, **scratch.left()}


def _known(
    wanted: _Left, found: _Left, copies: Copies, eager: Callable[..., PyTree], joints: Sequence[Joint]
) -> str | None:
    """The known reason for a difference; None if absent.

    Raises:
        PlanError: there is one for which none is known.
    """
    names, largest = differences(wanted, found)
    if not names:
        return None
    text = f"{', '.join(names[:_SHOWN])}{f' and {len(names) - _SHOWN} more' if len(names) > _SHOWN else ''}"
    text += f", by up to {largest:.2g}"
    precision = _precision(joints)
    if _close(wanted, found, precision):
        return f"{text}, which is rounding: an operator is computed otherwise when it is traced"
    with ExitStack() as stack:
        try:
            stack.enter_context(plain_checkpoints())
            plain = _left(copies, eager)
        except Exception:  # whatever it is, it gives no reason
            plain = wanted
    if _close(plain, found, precision):
        return f"{text}: the step is equal to that without the network's own checkpoints, which change it"
    raise PlanError(
        f"the planned step is not equal to the step as it is: {text}; a plan cannot be trusted with this network "
        "(verify=False takes it nevertheless)", Page.SAME,
    )  # fmt: skip


def _precision(joints: Sequence[Joint]) -> float:
    """The relative precision of the coarsest floating-point numbers that are traced."""
    import torch

    values = [node.meta.get("val") for joint in joints for node in joint.graph_module.graph.nodes]
    floats = {each.dtype for each in values if isinstance(each, torch.Tensor) and each.is_floating_point()}
    return max((torch.finfo(each).eps for each in floats), default=torch.finfo(torch.float32).eps)


def _close(one: _Left, other: _Left, precision: float) -> bool:
    """True if both differ by no more than sums in another order do: half of the digits, of each tensor's largest."""
    import torch

    for name in differences(one, other)[0]:
        mine, its = one[name], other[name]
        if mine is None or its is None or mine.shape != its.shape or mine.dtype != its.dtype:
            return False
        if not (mine.is_floating_point() or mine.is_complex()):
            return False
        most = mine.abs().nan_to_num(0.0, 0.0).max().item()
        if not torch.allclose(mine, its, rtol=0.0, atol=precision**0.5 * most, equal_nan=True):
            return False
    return True


# --- In calls of a plan ---------------------------------------------------------------------------------------


class Checks:
    """Which calls of plans are compared to the step as it is."""

    def __init__(self, every: int | None = None, verify: bool = True) -> None:
        """Begin to count.

        Args:
            every: a number of calls; None: none but the first ones.
            verify: are first calls of plans compared that were not when they were made?
        """
        self.every, self.verify, self._calls = every, verify, 0
        self._waiting: set[int] = set()

    def first(self, runtime: Runtime) -> None:
        """Note that a plan's first call is to be compared, as that was not done when it was made."""
        if self.verify:
            self._waiting.add(id(runtime))

    def before(
        self, runtimes: Sequence[Runtime], need: int, args: Sequence[PyTree], kwargs: Mapping[str, PyTree]
    ) -> None:
        """Compare a call that is about to be made, if it is one of those.

        Args:
            runtimes: those of all values that the network may read; one is for this call.
            need: bytes that the step as it is takes.

        Raises:
            PlanError: the plan's step is not equal to the step as it is.
        """
        self._calls += 1
        due = self.every is not None and self._calls % self.every == 0
        for runtime in runtimes:
            first = id(runtime) in self._waiting
            if not (due or first):
                continue
            self._waiting.discard(id(runtime))
            try:
                self._compare(runtime, need, args, kwargs)
            except OtherValueError:  # it is not the one for this call
                continue
            return

    def _compare(self, runtime: Runtime, need: int, args: Sequence[PyTree], kwargs: Mapping[str, PyTree]) -> None:
        joint, guards = runtime.joint, runtime.guards
        given = [each for each in joint.given.values() if each.kind != TANGENT]
        if (reason := room_for(need, given[0].form.device if given else "cpu")) is not None:
            note(f"call {self._calls} of the plan was not compared to the step as it is: {reason}")
            return
        gradients = ACCUMULATED if runtime.code.added else RETURNED
        called = guards.call.arranged(tuple(args), dict(kwargs))
        copies = partial(scratch_of, guards.call.step.model, given, joint.differentiable, gradients, *called)
        try:
            found = trusted(copies, replace(runtime, otherwise=None), runtime.original, [joint])
        except OtherValueError:
            raise
        except PlanError as error:
            raise PlanError(f"in call {self._calls} of the plan, {error.reason}", Page.SAME) from None
        if found.known or found.left_out:
            note(f"call {self._calls} of the plan: {found}")


class CheckedRun:
    """Runs a plan, and compares some of its calls."""

    def __init__(self, runtime: Runtime, need: int, checks: Checks) -> None:
        self.runtime, self._need, self._checks = runtime, need, checks

    def __call__(self, *args: PyTree, **kwargs: PyTree) -> PyTree:
        import torch

        if torch.is_grad_enabled():
            self._checks.before([self.runtime], self._need, args, kwargs)
        return self.runtime(*args, **kwargs)


def checked_every(every: int | None) -> int | None:
    """How often calls are compared, as it was given.

    Raises:
        InputError: it is no number of calls.
    """
    if every is None or (isinstance(every, int) and not isinstance(every, bool) and every > 0):
        return every
    raise InputError(f"check_every {shown(every)}: expected a number of steps, such as 100")
