"""A platform of one device and slow memory, from costs per unit of size."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from fractions import Fraction

from moccasin_mzn.checks import plain
from moccasin_mzn.errors import InputError, shown
from moccasin_mzn.extensions.devices.build import CopyCosts, with_slow_memory
from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.problem.platform import Memory, Platform

LOCAL, SLOW = 0, 1
"""Positions of the two memories."""
_NUMBER = re.compile(r"[0-9]{1,30}(?:\.[0-9]{1,30})?(?:[eE][+-]?[0-9]{1,2})?", re.ASCII)


@dataclass(frozen=True)
class PagingCosts:
    """Costs per unit of size; the cost of an output is rounded up to an integer.

    Raises:
        InputError: a negative one, or one that is no exact number.
    """

    out_time: Fraction | None = Fraction(0)
    """Of writing to slow memory, in the graph's duration unit; None: nothing can be written."""
    in_time: Fraction | None = Fraction(0)
    """Of reading back; None: nothing can be read back."""
    out_energy: Fraction = Fraction(0)
    """Of writing, in any unit."""
    in_energy: Fraction = Fraction(0)
    power: Fraction = Fraction(1)
    """Energy of computing per unit of duration."""

    def __post_init__(self) -> None:
        for what, value in list(vars(self).items()):
            object.__setattr__(self, what, value := plain(value))
            if value is None and what in ("out_time", "in_time"):
                continue
            if isinstance(value, bool) or not isinstance(value, int | Fraction) or value < 0:
                raise InputError(f"{what.replace('_', ' ')} {shown(value)} is not an exact number of 0 or more")

    def ways(self) -> tuple[CopyCosts | None, CopyCosts | None]:
        """Costs of writing and of reading back; None: not possible."""
        out = None if self.out_time is None else CopyCosts(self.out_time, energy=self.out_energy)
        return out, None if self.in_time is None else CopyCosts(self.in_time, energy=self.in_energy)


def paging_platform(
    graph: ComputationGraph, budget: int, costs: PagingCosts, slow_capacity: int | None = None
) -> Platform:
    """One device with `budget` beside slow memory.

    Args:
        budget: of local memory, in the graph's size unit.
        slow_capacity: in the graph's size unit; None: as much as there may be.
    """
    energies = tuple(math.ceil(duration * costs.power) for duration in graph.durations)
    local = Memory("local", budget, graph.durations, energies)
    return with_slow_memory(Platform(graph, (local,)), slow_capacity, *costs.ways())


def parse_cost(what: str, text: str) -> Fraction | None:
    """Read a cost per unit of size, exactly: 3, 0.25, 1e-6; "inf": None, not possible.

    Raises:
        InputError: it is no such number.
    """
    if text.strip() == "inf":
        return None
    if not _NUMBER.fullmatch(text.strip()):
        raise InputError(f"{what} {shown(text)}: expected a number of 0 or more, such as 0.25, or inf")
    return Fraction(text.strip())
