"""Names of nodes and scales of memory, as pictures need them: short, in characters that every file format can hold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from moccasin_mzn.formatting import BYTE_STEPS
from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.graphs.wording import node_text

_LONGEST = 28


@dataclass(frozen=True)
class MemoryScale:
    """A memory axis: amounts are divided by `step` and are then in `unit`."""

    step: int
    unit: str

    @classmethod
    def of(cls, largest: int, unit: str) -> MemoryScale:
        """The scale for amounts up to `largest` in the graph's size unit."""
        if unit != "byte":
            return cls(1, "" if unit == "unit" else unit)
        return next((cls(step, name) for step, name in BYTE_STEPS if largest >= step), cls(1, "B"))

    @property
    def title(self) -> str:
        """The title of the axis."""
        return f"memory, {self.unit}" if self.unit else "memory"


def clean(text: str) -> str:
    """`text` in one line, without characters that XML cannot hold."""
    return "".join(c if c.isprintable() else "?" for c in " ".join(text.split()))


def row_name(graph: ComputationGraph, v: int) -> str:
    """The id of a node with its label, cut where it gets too long."""
    name = clean(node_text(graph, v))
    return name if len(name) <= _LONGEST else f"{name[: _LONGEST - 1]}…"


def spread(rows: Sequence[int], distance: float, last: int) -> dict[int, float]:
    """Places for names beside the ascending `rows`: in 0..`last`, at least `distance` apart, close to their rows.

    Returns:
        The place of each row; where there is no room for all, of evenly chosen ones.
    """
    most = max(1, int(last / distance) + 1)
    if len(rows) > most:
        rows = [rows[k * len(rows) // most] for k in range(most)]
    places: list[float] = []
    for k, row in enumerate(rows):  # down, but leaving room for those below
        lowest = last - (len(rows) - 1 - k) * distance
        places.append(min(max(row, places[-1] + distance if places else 0.0), lowest))
    return dict(zip(rows, places, strict=True))
