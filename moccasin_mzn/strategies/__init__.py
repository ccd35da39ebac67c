"""Rematerialization rules from the literature, to compare with; each makes schedules without a search.

A strategy is a module with `STRATEGIES`, a tuple of objects, and its name in `MODULES`. `strategy` describes what they
promise.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from moccasin_mzn.base.doc_links import Page
from moccasin_mzn.base.errors import InputError, shown
from moccasin_mzn.base.formatting import nearest

if TYPE_CHECKING:
    from moccasin_mzn.strategies.strategy import Strategy


MODULES = ("simple", "chen", "griewank", "dtr", "kumar", "lp_rounding", "fusion")
"""The modules of strategies, the simplest first."""


def strategies() -> tuple[Strategy, ...]:
    """All strategies, the simplest first."""
    return tuple(rule for module in MODULES for rule in import_module(f"{__name__}.{module}").STRATEGIES)


def find_strategy(name: str) -> Strategy:
    """The strategy with this name.

    Raises:
        InputError: there is none; the message lists the names there are.
    """
    known = {strategy.name: strategy for strategy in strategies()}
    if name not in known:
        names = f"{', '.join(known)}{nearest(name, known)}"
        raise InputError(Page.STRATEGIES.after(f"strategy {shown(name)} is unknown; there are {names}"))
    return known[name]
