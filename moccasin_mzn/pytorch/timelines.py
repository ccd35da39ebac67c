"""Memory over time of a step that was run dry: what is in it at each call, with the workspaces of operators."""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from moccasin_mzn.base.clock import Deadline
from moccasin_mzn.pytorch.dry_runs import DryRun
from moccasin_mzn.pytorch.operator_process import NO_DEADLINE, UNCALLED, OperatorCost, worker
from moccasin_mzn.pytorch.operator_worker import OperatorCall, OperatorSettings
from moccasin_mzn.pytorch.recording import ACTIVATION, FORWARD, GRADIENT, TEMPORARY, Called, Made

WORKSPACE: Final = "workspaces"
KINDS = GRADIENT, ACTIVATION, TEMPORARY, WORKSPACE
"""What of a step's memory changes while it runs; parameters, buffers, inputs and the optimizer's state stay."""


@dataclass(frozen=True)
class Moment:
    """What is in memory at the worst moment of an operator."""

    phase: str
    path: str
    """The path of the module that the operator belongs to; "" outside of modules."""
    memory: tuple[int, int, int, int]
    """Bytes of each of `KINDS`."""

    @property
    def whole(self) -> int:
        """Bytes of all of them."""
        return sum(self.memory)


@dataclass(frozen=True)
class Timeline:
    """Memory of a step."""

    moments: tuple[Moment, ...]
    """One for each call of an operator."""
    gradients: int
    """Bytes at the end of the backward pass."""
    activations: int
    """Bytes at the end of the forward pass, outputs included."""
    activations_of: Mapping[str, int]
    """The same by path of the module that has made them."""
    unmeasured: tuple[str, ...]
    """Operators whose workspace could not be measured."""

    def peak(self, *phases: str) -> int:
        """The most in some phases."""
        return max((each.whole for each in self.moments if each.phase in phases), default=0)

    @property
    def worst(self) -> Moment:
        """The moment with most memory, the first of several."""
        return max(self.moments, key=lambda each: each.whole)


def timeline_of(run: DryRun, measured: bool, end: Deadline = NO_DEADLINE) -> Timeline:
    """Replay a step.

    Args:
        measured: measure the workspaces of its operators, each by itself, on this machine.
        end: of measuring.
    """
    costs = _measured(run.calls, end) if measured else {}
    calls = [_corrected(call, costs.get(id(call))) for call in run.calls]
    ending: dict[int, Counter[str]] = {}
    for call in calls:
        for made in call.made:
            if made.end is not None:
                ending.setdefault(made.end, Counter())[made.kind] += made.bytes
    live, moments = Counter[str](), []
    for at, call in enumerate(calls):
        live.subtract(ending.get(at, {}))
        for made in call.made:
            live[made.kind] += made.bytes
        cost = costs.get(id(run.calls[at]))
        now = live[GRADIENT], live[ACTIVATION], live[TEMPORARY], 0 if cost is None else cost.workspace
        if call.wanted is not None or call.made:  # else it is a view
            moments.append(Moment(call.phase, call.path, now))
    cut = sum(call.phase == FORWARD for call in calls)
    kept = [(call.path, made) for call in calls[:cut] for made in call.made if made.end is None or made.end > cut]
    of = Counter[str]()
    for path, made in kept:
        of[path] += made.bytes
    called = [(call.wanted, costs[id(call)]) for call in run.calls if measured and call.wanted is not None]
    lacking = {".".join(wanted.operator[1:]) for wanted, cost in called if cost is None}
    gradients = sum(made.bytes for call in calls for made in call.made if made.kind == GRADIENT)
    return Timeline(tuple(moments), gradients, sum(of.values()), of, tuple(sorted(lacking)))


def _corrected(call: Called, cost: OperatorCost | None) -> Called:
    """A call that makes as much as it was measured to make: some operators allocate more than their outputs show."""
    more = 0 if cost is None or not call.made else cost.output_bytes - sum(made.bytes for made in call.made)
    if more <= 0:
        return call
    first: Made = replace(call.made[0], bytes=call.made[0].bytes + more)
    return Called(call.phase, call.wanted, call.path, [first, *call.made[1:]])


_KNOWN: dict[bytes, OperatorCost | None] = {}
"""What was measured in this process, by call and settings of PyTorch."""


def _measured(calls: Sequence[Called], end: Deadline) -> dict[int, OperatorCost | None]:
    """What each call takes, by its id; None: it could not be called by itself, or not before the end."""
    wanted = {id(call): key for call in calls if (key := _key(call.wanted)) is not None}
    new = {key: call.wanted for call in calls if (key := wanted.get(id(call))) is not None and key not in _KNOWN}
    if new:
        found = worker().measured(list(new.values()), 1, Deadline(0.0), end)
        _KNOWN.update({key: cost for key, cost in zip(new, found, strict=True) if cost is not UNCALLED})
    return {id(call): _KNOWN.get(wanted.get(id(call), b"")) for call in calls}


def _key(call: OperatorCall | None) -> bytes | None:
    """The key of a call; None: it cannot be sent to another process."""
    try:
        return None if call is None else pickle.dumps((call, OperatorSettings.current()))
    except Exception:  # an object of somebody's own among the constants
        return None
