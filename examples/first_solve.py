"""Fit a U-Net's training step into 80 % of the memory that it needs, and print what is recomputed.

$ python examples/first_solve.py
optimal: proven: no schedule with first computations in the input order ... is shorter
peak 1.56 GiB of 1.96 GiB, duration +0.078 %
recomputed: ...
"""

from collections import Counter
from pathlib import Path

import moccasin_mzn as mz

GRAPH = Path(__file__).resolve().parents[1] / "data" / "unet_training.json"
GIB = 2**30


def main() -> None:
    graph = mz.read_graph(GRAPH)
    result = mz.solve(graph, 0.8, time_limit=60, seed=0)  # 80 % of the memory that the input order needs
    print(f"{result.status}: {result.reason}")

    without = mz.solve(graph, 1.0)  # nothing has to be recomputed
    print(f"peak {result.peak / GIB:.2f} GiB of {without.peak / GIB:.2f} GiB, duration +{result.tdi_percent:.3f} %")

    names, times = dict(zip(graph.nodes, graph.labels, strict=True)), Counter(result.sequence)
    print("recomputed:", *(names[node] for node, count in times.items() if count > 1))
    # result.plot("schedule.html") draws retention intervals and memory; print(result) is a table


if __name__ == "__main__":
    main()
