"""Rematerialization schedules for computation graphs: least extra compute within a memory budget. ::

import moccasin_mzn as mz

graph = mz.read_graph("graph.json")
result = mz.solve(graph, 0.8, time_limit=60)  # 80 % of the memory that the input order needs
print(result)
result.plot("schedule.html")
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from moccasin_mzn import stop
    from moccasin_mzn.driving import Interrupted, Progress
    from moccasin_mzn.errors import InputError
    from moccasin_mzn.extensions.platforms import CopyCosts, Device, PagingCosts
    from moccasin_mzn.face import allocate, check_certificate, compare, frontier, order, solve
    from moccasin_mzn.graphs.formats import read_graph, write_graph
    from moccasin_mzn.graphs.graph import ComputationGraph
    from moccasin_mzn.problem.budget import Budget
    from moccasin_mzn.problem.buffer import Buffer, Gap
    from moccasin_mzn.problem.platform import Goal
    from moccasin_mzn.report.answers import Result

__all__ = [
    "Budget", "Buffer", "ComputationGraph", "CopyCosts", "Device", "Gap", "Goal", "InputError", "Interrupted",
    "PagingCosts", "Progress", "Result",
    "allocate", "check_certificate", "compare", "frontier", "order", "read_graph", "solve", "stop", "write_graph",
]  # fmt: skip

_HOMES = {
    "Budget": "problem.budget", "Buffer": "problem.buffer", "Gap": "problem.buffer", "ComputationGraph": "graphs.graph",
    "CopyCosts": "extensions.platforms", "Device": "extensions.platforms", "Goal": "problem.platform",
    "InputError": "errors", "Interrupted": "driving", "Progress": "driving",
    "PagingCosts": "extensions.platforms", "Result": "report.answers",
    "read_graph": "graphs.formats", "write_graph": "graphs.formats",
}  # fmt: skip
"""Modules of what is not in `face`. All are imported at their first use, as solvers start through this package."""


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name == "stop":
        return import_module(f"{__name__}.stop")  # which becomes an attribute of this module
    value = globals()[name] = getattr(import_module(f"{__name__}.{_HOMES.get(name, 'face')}"), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
