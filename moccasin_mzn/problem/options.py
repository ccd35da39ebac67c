"""What is asked about a graph, in addition to how it is searched: each option is declared here, and nowhere else.

::

    field here ──> option of commands, key of experiments, feature of the question, argument of `moccasin_mzn.solve`

A test holds the signature of the function, which is written out for its readers, to these fields.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from moccasin_mzn.base.option import option

INPUT_ORDER_HELP = (
    "The input order: that of the graph file (if it has one, else a topological order), a topological order, or a file "
    "with a list of node ids."
)
BUDGET_HELP = "Memory budget: a fraction of the peak memory of the input order, or an amount"


@dataclass(frozen=True)
class ProblemOptions:
    """Options about the problem; None, False: not given. They mean what the arguments of `moccasin_mzn.solve` mean."""

    budget: Any = option(
        None, "0.8|80%|BYTES|1.5GiB|least",
        f"{BUDGET_HELP}; least: the smallest for which a schedule is found, in 60 % of the time limit.",
    )  # fmt: skip
    max_computations: Any = option(
        None, "C|auto|FILE",
        "How often a node may be computed, at most; auto: 8 times; a JSON file has a limit for each node.  "
        "[default: 2]",
    )  # fmt: skip
    order: Any = option(
        "input", "input|topological|free|FILE",
        f"{INPUT_ORDER_HELP} free: the search chooses the order; fractions of the peak, and TDI, refer to the input "
        "order.",
    )  # fmt: skip
    count_fixed: bool = option(
        False, "", "The budget includes the graph's fixed memory, such as parameters and optimizer state.", kind=bool,
        flags=("--count-fixed", ""),
    )  # fmt: skip
    in_place: bool = option(
        False, "",
        "Let an output take the memory of an input where the graph allows it and no later operation reads the input.",
        kind=bool, flags=("--in-place", ""),
    )  # fmt: skip
    zero_copy_concat: bool = option(
        False, "",
        "Take out concatenations whose inputs, side by side in memory, are their output: they take no memory and no "
        "time; see `zero-copy`.",
        kind=bool, flags=("--zero-copy-concat", ""),
    )  # fmt: skip
    tile: Any = option(
        None, "auto|ROWS|RxC",
        "Compute outputs in parts of this number of rows, or tiles, in any order; auto: parts with which least is "
        "computed within the budget. GRAPH must know its operators, see `tile`.",
    )  # fmt: skip
    strategy: str | None = option(None, "NAME", "A heuristic in place of the model; the command `list` describes all.")
    warm_start: Any = option(None, "FILE", "Start from the schedule in this file.", kind=Path)
    addresses: bool = option(
        False, "", "Give each output an offset in one arena; the budget is then for the size of the arena.", kind=bool,
        flags=("--addresses", ""),
    )  # fmt: skip
    alignment: int | None = option(None, "N", "Offsets are multiples of it.  [default: 1]", kind=int)
    certificate: Any = option(
        None, "FILE",
        "Write the schedule and a proof of a lower bound, for `check-certificate`. The proof takes up to another "
        "--time-limit, or 60 s if there is none; after Ctrl-C up to 5 s.",
        kind=Path,
    )  # fmt: skip
