"""The compiled searches, made ready before a clock starts: loaded if they were kept by an earlier process."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from moccasin_mzn.errors import require_address_space

if TYPE_CHECKING:
    from moccasin_mzn.graphs.graph import ComputationGraph
    from moccasin_mzn.problem.instance import Instance

FIRST_TIME = "compiling the {}, once after an installation; `python -m moccasin_mzn compile` does it beforehand"
NOT_KEPT = (
    "note: no folder for what is compiled can be written to, so every run compiles: "
    "set NUMBA_CACHE_DIR to a folder that can be"
)
LEAST_ADDRESS_SPACE = 600 * 2**20
"""In bytes."""
_ready: dict[str, float] = {}
"""Seconds that compiling took, by search."""
_noted: set[str] = set()


def ready(*names: str) -> float:
    """Have the functions of some of `SEARCHES` compiled; stderr says so if they have to be compiled now.

    Returns:
        The seconds that compiling took, which are not for a time limit to count; 0 if all was kept.

    Raises:
        OutOfMemoryError: this process may not map as much as searches need.
    """
    require_address_space("a search", LEAST_ADDRESS_SPACE)
    return sum(_made_ready(name) for name in names if name not in _ready)


def compiled_for(free_order: bool) -> tuple[str, ...]:
    """The searches of one memory, along the input order or any."""
    return (LOCAL, ORDERS, FREE) if free_order else (LOCAL,)


def seconds_spent() -> float:
    """What compiling has taken so far in this process."""
    return sum(_ready.values())


def _made_ready(name: str) -> float:
    from numba.core import event

    from moccasin_mzn.heuristics.compiling import keeps

    begin, told = time.monotonic(), []

    class Compiling(event.Listener):
        def on_start(self, event: event.Event) -> None:
            if not told:
                told.append(name)
                _say(FIRST_TIME.format(name) if keeps() else NOT_KEPT)

        def on_end(self, event: event.Event) -> None: ...

    listener = Compiling()
    event.register("numba:compile", listener)
    try:
        SEARCHES[name]()
    finally:
        event.unregister("numba:compile", listener)
    _ready[name] = time.monotonic() - begin if told else 0.0
    return _ready[name]


def _say(line: str) -> None:
    if line not in _noted:
        _noted.add(line)
        print(line, file=sys.stderr, flush=True)


def _graph() -> ComputationGraph:
    """One that needs 8 with a recomputation and 10 without."""
    from moccasin_mzn.graphs.graph import ComputationGraph

    return ComputationGraph(range(5), (5, 1, 1, 1, 1), (2, 1, 7, 1, 1), ((0, 1), (0, 4), (1, 2), (2, 3), (3, 4)))


def _instance(order: str = "input") -> Instance:
    from moccasin_mzn.problem.instance import Instance

    return Instance.build(_graph(), 8, order=order)


def _local() -> None:
    from moccasin_mzn.heuristics.staged.search import LocalSearch

    LocalSearch(_instance()).run(_ignore, _Later(1))


def _orders() -> None:
    from moccasin_mzn.heuristics.orders.order_search import compile_all

    compile_all()


def _free() -> None:
    from moccasin_mzn.heuristics.free_order.search import OrderAnnealing

    OrderAnnealing(_instance("free")).run(_ignore, _Later(1))


def _paging() -> None:
    from moccasin_mzn.extensions.paging.build import PagingCosts, paging_platform
    from moccasin_mzn.extensions.paging.search import PagingSearch
    from moccasin_mzn.formulations.plan_formulation import PlanProblem

    problem = PlanProblem(_instance(), paging_platform(_graph(), 8, PagingCosts()))
    PagingSearch(problem).run(_ignore, lambda: False, max_rounds=1)


def _addresses() -> None:
    from moccasin_mzn.extensions.addresses.search import compile_all

    compile_all()


def _evictions() -> None:
    from moccasin_mzn.strategies import find_strategy

    for name in ("dtr", "dtr-eq"):
        for _ in find_strategy(name).schedules(_instance(), lambda: False):
            pass


class _Later:
    """Says so often that it is not time to stop yet."""

    def __init__(self, times: int) -> None:
        self._left = times

    def __call__(self) -> bool:
        self._left -= 1
        return self._left < 0


def _ignore(found: object) -> None:
    """Schedules are of no use here."""


LOCAL, ORDERS, FREE, PAGING, ADDRESSES, EVICTIONS = (
    "local search", "search for orders", "annealing of orders", "search for paging", "search for addresses",
    "costs of evictions",
)  # fmt: skip
SEARCHES: dict[str, Callable[[], None]] = {
    LOCAL: _local, ORDERS: _orders, FREE: _free, PAGING: _paging, ADDRESSES: _addresses, EVICTIONS: _evictions,
}  # fmt: skip
"""What calls every compiled function of a search once, as the search itself does."""
