"""`python -m moccasin_mzn.free_order` compiles the annealing now rather than when it is needed first."""

from moccasin_mzn.free_order.annealing import OrderAnnealing
from moccasin_mzn.graph import ComputationGraph
from moccasin_mzn.instance import Instance


def main() -> None:
    """Search once on a graph of five nodes."""
    graph = ComputationGraph(range(5), (5, 1, 1, 1, 1), (2, 1, 7, 1, 1), ((0, 1), (0, 4), (1, 2), (2, 3), (3, 4)))
    OrderAnnealing(Instance.build(graph, 8, order="free")).run(lambda sequence: None, lambda: False, max_rounds=1)


if __name__ == "__main__":
    main()
