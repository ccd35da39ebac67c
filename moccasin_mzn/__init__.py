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
    from moccasin_mzn.api.driving import Interrupted, Progress
    from moccasin_mzn.api.frontier.points import FrontierPoint
    from moccasin_mzn.base import stop
    from moccasin_mzn.base.errors import InputError
    from moccasin_mzn.base.vocabulary import Status
    from moccasin_mzn.face import allocate, check_certificate, compare, frontier, order, solve
    from moccasin_mzn.graphs.formats import read_graph, write_graph
    from moccasin_mzn.graphs.graph import ComputationGraph
    from moccasin_mzn.graphs.tiling.cutting import tile
    from moccasin_mzn.machine.platforms import CopyCosts, Device, MemoryPool, PagingCosts
    from moccasin_mzn.problem.budget import Budget
    from moccasin_mzn.problem.buffer import Buffer, Gap
    from moccasin_mzn.problem.judges.certificates import Proven
    from moccasin_mzn.problem.judges.schedules import Violation
    from moccasin_mzn.problem.platform import Goal
    from moccasin_mzn.report.answers import AllocationResult, ComparisonResult, FrontierResult, OrderResult, Result
    from moccasin_mzn.report.judged import JudgedSchedule, read_result, validate
    from moccasin_mzn.report.rows import Incumbent, Interval

    __version__: str

__all__ = [
    "AllocationResult", "Budget", "Buffer", "ComparisonResult", "ComputationGraph", "CopyCosts", "Device",
    "FrontierPoint", "FrontierResult", "Gap", "Goal", "Incumbent", "InputError", "Interrupted", "Interval",
    "JudgedSchedule", "MemoryPool", "OrderResult", "PagingCosts", "Progress", "Proven", "Result", "Status", "Violation",
    "allocate", "check_certificate", "compare", "frontier", "order", "read_graph", "read_result", "solve", "stop",
    "tile", "validate", "write_graph",
]  # fmt: skip

_HOMES = {
    "AllocationResult": "report.answers", "Budget": "problem.budget", "Buffer": "problem.buffer",
    "ComparisonResult": "report.answers", "ComputationGraph": "graphs.graph", "CopyCosts": "machine.platforms",
    "Device": "machine.platforms", "FrontierPoint": "api.frontier.points", "FrontierResult": "report.answers",
    "Gap": "problem.buffer", "Goal": "problem.platform", "Incumbent": "report.rows", "InputError": "base.errors",
    "Interrupted": "api.driving", "Interval": "report.rows",
    "JudgedSchedule": "report.judged", "MemoryPool": "machine.platforms", "OrderResult": "report.answers",
    "PagingCosts": "machine.platforms", "Progress": "api.driving",
    "Proven": "problem.judges.certificates", "Result": "report.answers", "Status": "base.vocabulary",
    "Violation": "problem.judges.schedules", "read_graph": "graphs.formats", "read_result": "report.judged",
    "tile": "graphs.tiling.cutting", "validate": "report.judged", "write_graph": "graphs.formats",
}  # fmt: skip
"""Modules of what is not in `face`. All are imported at their first use, as solvers start through this package."""


if not TYPE_CHECKING:  # where it is seen, any name is taken for one that is there

    def __getattr__(name: str) -> object:
        if name == "__version__":
            return _version()
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        if name == "stop":
            return import_module(f"{__name__}.base.stop")  # which becomes an attribute of this module
        value = globals()[name] = getattr(import_module(f"{__name__}.{_HOMES.get(name, 'face')}"), name)
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, "__version__"})


def _version() -> str:
    """Return the version of the installed package; "unknown" where it is not installed but imported from a checkout."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("moccasin_mzn")
    except PackageNotFoundError:
        return "unknown"
