"""Choose the order too: an order of least peak needs no recomputation, and with both a lower budget is kept.

$ python examples/free_order.py
input order: 16.80 MiB
best order, every node once: 15.86 MiB, and no order needs less than 15.86 MiB
a free order with recomputation: ... MiB for ... % more time
"""

from pathlib import Path

import moccasin_mzn as mz

GRAPH = Path(__file__).resolve().parents[1] / "data" / "randomly_wired_inference.json"
MIB = 2**20


def main() -> None:
    graph = mz.read_graph(GRAPH)
    print(f"input order: {mz.solve(graph, 1.0).peak / MIB:.2f} MiB")

    order = mz.order(graph, time_limit=60)
    least = order.bound / MIB
    print(f"best order, every node once: {order.peak / MIB:.2f} MiB, and no order needs less than {least:.2f} MiB")

    result = mz.solve(graph, "15.5MiB", order="free", time_limit=10, seed=0)
    print(f"a free order with recomputation: {result.peak / MIB:.2f} MiB for {result.tdi_percent:.3f} % more time")


if __name__ == "__main__":
    main()
