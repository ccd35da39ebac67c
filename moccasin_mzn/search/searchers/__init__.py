"""The searches that there are. A new one is a module with `SEARCHERS`, a tuple of objects, and a name in `MODULES`."""

from __future__ import annotations

from importlib import import_module

from moccasin_mzn.search.runner import Searcher

MODULES = ("given_order", "streaming", "any_order", "along", "several_memories", "model", "construction")
"""Modules of searches, in the order in which these start."""


def searchers() -> tuple[Searcher, ...]:
    """Return all searches; each decides whether it applies."""
    return tuple(one for module in MODULES for one in import_module(f"{__name__}.{module}").SEARCHERS)
