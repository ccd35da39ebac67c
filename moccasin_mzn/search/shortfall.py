"""What is known where no schedule was found: how near the search came, how near it can come, and what would help."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from moccasin_mzn.bounds.least_budget import held_bound, least_budget_bound
from moccasin_mzn.problem.instance import Instance

FOUND, NONE_FOUND, NONE_THERE, NOT_TRIED = "found", "none found", "none there", "not tried"


@dataclass(frozen=True)
class Help:
    """Another question that may have an answer."""

    option: str
    """What asks it, on the command line."""
    outcome: str
    """"found": a schedule, which follows; "none found" in the time there was; "none there", proven; "not tried"."""
    detail: str
    """In a few words."""
    seconds: float = 0.0
    """For which it was tried."""
    peak: int | None = None
    """Of the schedule, in the graph's size unit."""
    duration: int | None = None
    """In the graph's duration unit."""
    tdi_percent: float | None = None
    sequence: tuple[int, ...] | None = None
    """Positions in `graph.nodes`."""

    def as_dict(self, nodes: Sequence[int | str]) -> dict[str, Any]:
        """Its entry in the object that `solve --json` prints; `nodes` are the ids."""
        sequence = None if self.sequence is None else [nodes[v] for v in self.sequence]
        return {**vars(self), "seconds": round(self.seconds, 3), "sequence": sequence}


@dataclass(frozen=True)
class Shortfall:
    """About a question, as it was asked, that has no schedule, or none that was found. Memory in the graph's unit."""

    instance: Instance
    status: str
    """"infeasible", "unknown", or, for a strategy, "over-budget"."""
    least_peak: int
    """Of all sequences seen, the input order among them."""
    floor: int
    """Proven: no schedule in any order, with any number of computations, fits less."""
    scope_floor: int
    """Proven: nor does any of the kind that was sought."""
    helps: tuple[Help, ...] = ()
    """In the order in which they are worth trying."""

    def of_budget(self, amount: int) -> float | None:
        """An amount of memory as a fraction of the budget; None if fixed memory leaves nothing."""
        return amount / self.instance.budget if self.instance.budget > 0 else None

    def as_dict(self) -> dict[str, Any]:
        """Its part of the object that `solve --json` prints."""
        amounts = {name: getattr(self, name) for name in ("least_peak", "floor", "scope_floor")}
        return {
            "status": self.status,
            "max_computations": self.instance.counts,
            **amounts,
            **{f"{name}_of_budget": self.of_budget(amount) for name, amount in amounts.items()},
            "helps": [one.as_dict(self.instance.graph.nodes) for one in self.helps],
        }


def shortfall(
    instance: Instance, status: str, staged: bool, least_peak: int | None, floor: int = 0, helps: Sequence[Help] = ()
) -> Shortfall:
    """What is known of an instance, with what a search has seen and proven.

    Args:
        staged: are first computations in the input order?
        least_peak: seen; None: nothing.
        floor: proven by the search.
    """
    least = least_budget_bound(instance.graph).memory
    floors = [least, floor, instance.budget + 1 if status == "infeasible" else 0]
    if staged and not instance.free_order:
        floors.append(held_bound(instance))
    peaks = [instance.baseline.peak] if least_peak is None else [instance.baseline.peak, least_peak]
    return Shortfall(instance, status, min(peaks), least, max(floors), tuple(helps))
