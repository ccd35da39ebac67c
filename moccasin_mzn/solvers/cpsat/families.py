"""Which modules know which constraints: each is loaded when a constraint is met that those before do not know.

Most files need two or three of them, and loading all takes longer than reading and solving a small file.
"""

from __future__ import annotations

from importlib import import_module

from moccasin_mzn.solvers.cpsat.registry import HANDLERS, Handler

_FAMILIES = (
    "comparison", "boolean", "arithmetic", "element", "extremes", "counting", "cardinality", "ordering", "scheduling",
    "reading", "packing", "boxes", "successors", "extension",
)  # fmt: skip
"""Of the package `constraints`, the most frequent ones first."""
_unloaded = list(_FAMILIES)


def handler(name: str) -> Handler | None:
    """How to post a constraint of this name, None if there is none."""
    while name not in HANDLERS and _unloaded:
        import_module(f"moccasin_mzn.solvers.cpsat.constraints.{_unloaded.pop(0)}")
    return HANDLERS.get(name)


def all_handlers() -> dict[str, Handler]:
    """Those of all constraints, by name."""
    handler("")
    return HANDLERS
