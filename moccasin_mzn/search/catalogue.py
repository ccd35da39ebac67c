"""All ways to make a schedule, by name: what each is, where it comes from and what it guarantees."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from moccasin_mzn.formulations import Formulation
    from moccasin_mzn.strategies.strategy import Strategy


@dataclass(frozen=True)
class Entry:
    """The description of a formulation or a strategy."""

    kind: str
    """"formulation" or "strategy": the option that takes the name."""
    name: str
    title: str
    source: str
    """The publication and its section."""
    guarantee: str
    """Known properties of its schedules."""


def entries() -> tuple[Entry, ...]:
    """Return the entries of formulations, then those of strategies."""
    from moccasin_mzn.formulations import formulations
    from moccasin_mzn.strategies import strategies

    kinds: dict[str, Sequence[Formulation | Strategy]] = {"formulation": formulations(), "strategy": strategies()}
    return tuple(
        Entry(kind, one.name, one.title, one.source, one.guarantee) for kind, some in kinds.items() for one in some
    )
