"""Rematerialization rules from the literature, to compare with; each makes schedules without a search.

A strategy is a module with `Strategy` objects and an entry here. `strategy` says what they promise.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from moccasin_mzn.errors import InputError, shown

if TYPE_CHECKING:
    from moccasin_mzn.strategies.strategy import Strategy


def strategies() -> tuple[Strategy, ...]:
    """All strategies, the simplest first."""
    from moccasin_mzn.strategies.chen import CHEN
    from moccasin_mzn.strategies.dtr import DTR
    from moccasin_mzn.strategies.griewank import GRIEWANK
    from moccasin_mzn.strategies.kumar import KUMAR, KUMAR_HELD
    from moccasin_mzn.strategies.lp_rounding import LP_ROUNDING
    from moccasin_mzn.strategies.simple import KEEP_ALL, RECOMPUTE_ALL

    return (KEEP_ALL, RECOMPUTE_ALL, *CHEN, GRIEWANK, *DTR, KUMAR, KUMAR_HELD, LP_ROUNDING)


def find_strategy(name: str) -> Strategy:
    """The strategy with this name.

    Raises:
        InputError: there is none; the message lists the names there are.
    """
    known = {strategy.name: strategy for strategy in strategies()}
    if name not in known:
        raise InputError(f"strategy {shown(name)} is unknown; there are {', '.join(known)}")
    return known[name]
