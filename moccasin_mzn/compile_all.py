"""`python -m moccasin_mzn.compile_all` compiles what numba compiles now rather than when it is needed first."""

from __future__ import annotations

from moccasin_mzn.addresses.buffers import Buffer
from moccasin_mzn.addresses.search import search_arena
from moccasin_mzn.free_order.annealing import OrderAnnealing
from moccasin_mzn.graph import ComputationGraph
from moccasin_mzn.heuristics.search import LocalSearch
from moccasin_mzn.instance import Instance
from moccasin_mzn.ordering.order_search import compile_all as compile_orderings
from moccasin_mzn.paging.build import PagingCosts, paging_platform
from moccasin_mzn.paging.search import PagingSearch
from moccasin_mzn.platforms.formulation import PlanProblem


def main() -> None:
    """Every compiled search once, on a graph of five nodes."""
    graph = ComputationGraph(range(5), (5, 1, 1, 1, 1), (2, 1, 7, 1, 1), ((0, 1), (0, 4), (1, 2), (2, 3), (3, 4)))
    LocalSearch(Instance.build(graph, 8)).run(_ignore, _never, max_rounds=2)
    OrderAnnealing(Instance.build(graph, 8, order="free")).run(_ignore, _never, max_rounds=1)
    compile_orderings()
    problem = PlanProblem(Instance.build(graph, 8), paging_platform(graph, 8, PagingCosts()))
    PagingSearch(problem).run(_ignore, _never, max_rounds=2)
    # So many that no placement is as small as the bound: every kind of search has its turn.
    lives = [(11 * at % 40, 11 * at % 40 + 3 + 7 * at % 17, 1 + 29 * at % 23) for at in range(80)]
    for _ in range(4):  # what is compiled takes up the time of a search
        search_arena([Buffer(str(at), *life) for at, life in enumerate(lives)], time_limit=0.5)


def _ignore(found: object) -> None:
    """Schedules are of no use here."""


def _never() -> bool:
    return False


if __name__ == "__main__":
    main()
