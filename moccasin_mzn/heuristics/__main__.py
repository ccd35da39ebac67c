"""`python -m moccasin_mzn.heuristics` compiles the local search now rather than when it is needed first."""

from moccasin_mzn.graph import ComputationGraph
from moccasin_mzn.heuristics.search import LocalSearch
from moccasin_mzn.instance import Instance


def main() -> None:
    """Search once on a graph of five nodes."""
    graph = ComputationGraph(range(5), (5, 1, 1, 1, 1), (2, 1, 7, 1, 1), ((0, 1), (0, 4), (1, 2), (2, 3), (3, 4)))
    LocalSearch(Instance.build(graph, 8)).run(lambda sequence: None, lambda: False, max_rounds=2)


if __name__ == "__main__":
    main()
