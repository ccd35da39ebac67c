"""The least peak of orders that compute every node once: a Markdown table over graph files.

    python scripts/bench_order.py GRAPH ... [--time-limit 60] [--seed 0]

"least peak" and "bound" are in percent of the input order's peak; "=" behind a bound: proven to be the least. "s" are
seconds to the proof or the time limit, "s best" those to the best order, without the start of the program.
"""

from __future__ import annotations

import argparse

from row_tables import print_markdown

from moccasin_mzn.base.formatting import memory_text
from moccasin_mzn.graphs.formats import read_graph
from moccasin_mzn.heuristics.orders.least_peak import OrderProgress, least_peak_order
from moccasin_mzn.problem.judges.schedules import simulate

_HEADINGS = ("graph", "nodes", "edges", "input peak", "least peak %", "bound %", "s best", "s", "found by", "bound by")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("graphs", nargs="+", metavar="GRAPH")
    parser.add_argument("--time-limit", type=float, default=60)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    rows = (row(path, arguments.time_limit, arguments.seed) for path in arguments.graphs)
    print_markdown(_HEADINGS, rows, ("graph", "found by", "bound by"))


def row(path: str, time_limit: float, seed: int) -> list[str]:
    """The cells of one graph."""
    graph = read_graph(path)
    input_peak = simulate(graph, graph.input_order()).peak
    when = [0.0]

    def listen(progress: OrderProgress) -> None:
        if progress.order is not None:
            when.append(progress.seconds)

    found = least_peak_order(graph, time_limit=time_limit, seed=seed, on_progress=listen)
    percents = [f"{100 * amount / input_peak:.3f}" if input_peak else "-" for amount in (found.peak, found.bound)]
    mark = " =" if found.status == "optimal" else ""
    return [
        path.rpartition("/")[2].removesuffix(".json"), f"{len(graph.nodes):,}", f"{len(graph.edges):,}",
        memory_text(input_peak, graph.size_unit), percents[0], percents[1] + mark, f"{when[-1]:.1f}",
        f"{found.seconds:.1f}", found.source, found.bound_source,
    ]  # fmt: skip


if __name__ == "__main__":
    main()
