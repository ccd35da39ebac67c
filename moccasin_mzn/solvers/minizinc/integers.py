"""Solvers whose integers have 32 bits: models with larger sums are refused before they are compiled.

Gecode 6 reads no number past 2^31 - 2, and wraps around unseen in some sums that pass it; Chuffed wraps around in all.
Then they call optimal what is not, and infeasible what has a solution. What counts are the sums in the model:
amounts there are divided by their greatest common divisor.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from moccasin_mzn.errors import InputError
from moccasin_mzn.pages import Page
from moccasin_mzn.solvers.minizinc.solvers import OWN, Backend

LARGEST = 2**31 - 2
NARROW = frozenset(("gecode", "gecode_presolver", "gist", "chuffed"))
"""The last parts of their ids."""
NARROW_TITLES = ("Gecode", "Chuffed")


@dataclass(frozen=True)
class Sum:
    """A sum over nodes in a model, as large as it may become."""

    what: str
    """Of which amounts, such as "duration"."""
    terms: Sequence[int]
    """By node of the model."""
    order: Sequence[int]
    """Position in `graph.nodes` of each node of the model."""
    scale: int
    """Terms times this are in the problem's unit."""

    @property
    def total(self) -> int:
        """As large as it may become."""
        return sum(self.terms)


def too_wide(sums: Iterable[Sum]) -> list[Sum]:
    """Those that integers of 32 bits cannot hold."""
    return [one for one in sums if one.total > LARGEST]


def check_integers(backends: Iterable[Backend], sums: Callable[[], Iterable[Sum]], nodes: Sequence[str | int]) -> None:
    """Check that the sums of a model fit the integers of its solvers.

    Args:
        sums: makes them, if any of the solvers has narrow integers.
        nodes: ids by position in the graph.

    Raises:
        InputError: one does not; the message names the solver, the sum, its largest term and solvers that can.
    """
    *own, last = OWN
    narrow = [backend for backend in backends if backend.solver.id.rpartition(".")[2] in NARROW]
    for one in too_wide(sums()) if narrow else ():
        largest = max(range(len(one.terms)), key=one.terms.__getitem__)
        unit = f" in units of {one.scale}" if one.scale != 1 else ""
        told = (
            f"solver {narrow[0].name} has integers of 32 bits, up to {LARGEST}: the total {one.what} in the model "
            f"may be {one.total}{unit}, {one.terms[largest]} of it of node {nodes[one.order[largest]]}; "
            f"{', '.join(own)} and {last} can count that far"
        )
        raise InputError(Page.SOLVERS.after(told))
