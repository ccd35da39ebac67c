"""Looks at the runs of an experiment before the first of them: which are chosen, can they run, which are infeasible."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase

from moccasin_mzn.base.errors import InputError, located, shown
from moccasin_mzn.base.formatting import count_text, nearest
from moccasin_mzn.bench.matrix import BenchGraph, Run
from moccasin_mzn.problem.instance import Instance
from moccasin_mzn.search.conclusion import known_at_once
from moccasin_mzn.solvers.minizinc.solvers import check_solvers, find_backend


def chosen(runs: Sequence[Run], patterns: Sequence[str]) -> list[Run]:
    """Return the runs whose graph, budget, method or whole label matches one of the patterns.

    Args:
        patterns: such as "RL *" or "RL G1 0.8 *"; none: all runs.

    Raises:
        InputError: a pattern matches no run.
    """
    for pattern in patterns:
        if not any(_matches(run, pattern) for run in runs):
            labels = dict.fromkeys(label for run in runs for label in _labels(run)[:-1])
            raise InputError(f"--only {shown(pattern)}: matches no run{nearest(pattern, labels)}; --list lists them")
    return [run for run in runs if not patterns or any(_matches(run, pattern) for pattern in patterns)]


def _matches(run: Run, pattern: str) -> bool:
    return any(fnmatchcase(label, pattern) for label in _labels(run))


def _labels(run: Run) -> tuple[str, ...]:
    return run.row["graph"], run.row["budget"], run.row["method"], run.label


def check_can_run(runs: Sequence[Run]) -> None:
    """Check that the solvers of all runs are on this machine.

    Raises:
        InputError: one is unknown or cannot run; the message names the method.
    """
    for method, (solver, search) in {
        run.row["method"]: (run.row["solver"], run.row["search"]) for run in runs if run.row["solver"]
    }.items():
        with located(f"method {method}"):
            names = [name.strip() for name in solver.split(",")]
            check_solvers(names)
            for name in names if search != "only" else ():
                find_backend(name)


def infeasible(graphs: Sequence[BenchGraph], runs: Sequence[Run]) -> Iterator[str]:
    """Yield a line for each graph and budget for which it is proven at once that there is no schedule."""
    by_label: Mapping[str, BenchGraph] = {graph.source.label: graph for graph in graphs}
    of_one_memory = [run for run in runs if not run.allocates and run.method.is_of_graph_as_given]
    counts = Counter((run.row["graph"], run.row["budget"], run.count_fixed) for run in of_one_memory)
    for (label, budget, count_fixed), count in counts.items():
        graph = by_label[label].graph
        assert graph is not None
        known = known_at_once(Instance.build(graph, budget, count_fixed=count_fixed))
        if known is not None and known[0] == "infeasible":
            yield f"infeasible: {label}, budget {budget} ({count_text(count, 'run')}): {known[1]}"
