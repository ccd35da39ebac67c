"""The columns of a store, and what they mean."""

from __future__ import annotations

from moccasin_mzn.base.files import JsonObject

COLUMNS: dict[str, type] = {
    "key": str, "experiment": str, "graph": str, "family": str, "graph_digest": str, "nodes": int, "edges": int,
    "budget": str, "budget_amount": int, "baseline_peak": int, "baseline_duration": int, "method": str,
    "strategy": str, "formulation": str, "precedence": str, "index": str, "search": str, "solver": str,
    "solver_version": str, "driver": str, "max_computations": str, "seed": int, "threads": int, "time_limit": float,
    "memory_limit": int, "command": str, "status": str, "reason": str, "valid": bool, "peak": int, "duration": int,
    "tdi_percent": float, "duration_bound": int, "gap_percent": float, "schedule": str, "seconds": float,
    "cpu_seconds": float, "memory_peak": int, "solve_seconds": float, "started": str, "machine": str, "version": str,
    "extension": str, "objective": str, "value": int, "bound": int, "arena": int, "memories": str, "baseline": str,
}  # fmt: skip
"""The columns of the table `runs`, in their order. ::

    key               digest of all that defines the run, see `matrix.run_key`
    experiment        its name; a run that two experiments share has a line for each
    graph, family     labels of the experiment
    graph_digest      of nodes, durations, sizes, edges and order
    nodes, edges      counts
    budget            as given; budget_amount: in the graph's size unit
    baseline_peak, baseline_duration      of the input order, every node computed once; with memories of one device,
                      each output is where accesses take least
    method            label of the configuration
    strategy, formulation, precedence, index, search, solver, max_computations
                      as resolved; none where they mean nothing
    solver_version, driver                what ran, such as "OR-Tools 9.15" and "MiniZinc 2.6.4"
    seed, threads, time_limit [s], memory_limit [bytes]
    command           the arguments after `solve`
    status            optimal, feasible, infeasible, unknown, over-budget: as `solve --json` has them;
                      not-applicable: the strategy is not for this graph; error: exit status 2; out-of-memory;
                      out-of-time: killed at the hard limit; crashed: died by a signal, or without an answer
    reason            one line
    valid             the judge accepts a schedule, also one salvaged from a run that was killed
    peak, duration, tdi_percent, duration_bound, gap_percent      of that schedule; of a plan, the peak of its first
                      memory, and the gap of its objective
    schedule          JSON list of node ids, the sequence; of a plan, of its actions; of buffers, of their offsets
    seconds, cpu_seconds      wall clock and CPU time of the whole process tree
    memory_peak       bytes, of the whole process tree
    solve_seconds     as the run itself measured
    started           ISO 8601, UTC
    machine           processor, cores, memory; version: of moccasin_mzn
    extension         options for several memories, addresses, in place, parts and concatenations; none without
    objective         what is minimized: duration, energy or traffic; arena for buffers
    value, bound      its total, and what is proven to be the least
    arena             size of the arena of a schedule, of a plan's first memory, or of buffers
    memories          JSON object of a plan's memories: budget, peak and arena of each
    baseline          label of the method that this one is compared with, from which it differs in one option
"""

TRACE_COLUMNS: dict[str, type] = {
    "key": str, "position": int, "seconds": float, "duration": int, "bound": int, "source": str
}  # fmt: skip
"""The columns of the table `traces`: one line for each improvement of a run, `position` from 0. duration, or what else
is minimized, is empty before the first schedule within the budget; source: who improved it or the bound."""
TRACE_VALUES = tuple(TRACE_COLUMNS)[2:]
"""The columns of an improvement that come from the run itself."""

GRAPH_COLUMNS: dict[str, type] = {"digest": str, "packed": bytes}
"""The columns of the table `graphs`: graphs of runs, or buffers, by digest; `matrix.unpacked` reads them."""

VERSION = 3
"""The version of the tables."""
ADDED: dict[int, dict[str, tuple[str, ...]]] = {
    2: {"runs": ("extension", "objective", "value", "bound", "arena", "memories")},
    3: {"runs": ("baseline",), "traces": ("source",), "graphs": tuple(GRAPH_COLUMNS)},
}
"""Columns of each table that came with a version; stores of earlier versions do not have them."""

LABELS = ("experiment", "graph", "family", "budget", "method", "command", "baseline")
"""Columns that do not define a run: they follow the experiment's file."""

INTEGER_BITS = 63
"""The most bits of an integer in a store, a limit of SQLite."""

STATUSES = (
    "optimal", "feasible", "infeasible", "unknown", "over-budget",
    "not-applicable", "error", "out-of-memory", "out-of-time", "crashed",
)  # fmt: skip

Row = JsonObject
"""A line of a table: a value for each of its columns."""


def empty_row() -> Row:
    """Make a line of `runs` without any values."""
    return dict.fromkeys(COLUMNS)


def took(row: Row) -> float:
    """Return the seconds that the run itself measured, or else those of its processes."""
    return row["seconds"] if row["solve_seconds"] is None else row["solve_seconds"]
