"""Options that the commands `deploy ...` share, and the search for a schedule where none is given."""

from __future__ import annotations

import json
import time
from collections.abc import Container
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click
from cloup import option, option_group

from moccasin_mzn.base.doc_links import Page
from moccasin_mzn.base.errors import InputError
from moccasin_mzn.base.files import JsonObject
from moccasin_mzn.base.option import flag
from moccasin_mzn.cli.common import (
    BUDGET,
    COUNT_FIXED,
    MAX_COMPUTATIONS,
    ORDER_OR_FREE,
    file_jobs,
    pictures,
    progress_lines,
    write_files,
)
from moccasin_mzn.cli.options import Decorator, OptionValue, OptionValues, added, named_options, problem_options
from moccasin_mzn.problem.budget import Budget
from moccasin_mzn.problem.instance import Instance
from moccasin_mzn.problem.placing import padded

if TYPE_CHECKING:
    from moccasin_mzn.api.question import Question
    from moccasin_mzn.api.request import Request
    from moccasin_mzn.api.tiling import Target
    from moccasin_mzn.graphs.graph import ComputationGraph
    from moccasin_mzn.problem.runtime_plan import RuntimePlan
    from moccasin_mzn.search.result import Result

SEARCH_SECONDS = 60.0
"""The default time limit of a search for a schedule, in seconds."""
EFFORT = ("time_limit", "threads", "seed")
"""The options that a search for offsets has as well."""
(ALIGNMENT,) = problem_options(
    "alignment", type=click.IntRange(min=1), help="Make offsets multiples of this.  [default: that of the plan]"
)  # fmt: skip
(TILE,) = problem_options(
    "tile",
    help="Compute outputs in parts of this number of rows, or tiles, in any order; auto: those that do best within the "
         "budget.",
)  # fmt: skip
JSON = click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")


def output(help_text: str) -> Decorator:
    """Return the option --output, which is required."""
    return click.option(
        "--output", "-o", type=click.Path(path_type=Path), required=True, metavar="FILE", help=help_text
    )  # fmt: skip


def keeping() -> Decorator:
    """Add the options that keep what is deployed; see `Kept`."""
    file = click.Path(path_type=Path)
    return added(option_group(
        "What is deployed",
        option("--schedule", "schedule_file", type=file, metavar="FILE",
               help="Write the schedule with its offsets as JSON, for `validate` with --graph's."),
        option("--graph", "graph_file", type=file, metavar="FILE", help="Write the graph that the schedule is for."),
        option("--plot", "plot", type=file, metavar="FILE", help="Draw the schedule: .png, .svg, .pdf or .html."),
    ))  # fmt: skip


@dataclass(frozen=True)
class Kept:
    """Files that keep what is deployed."""

    schedule: Path | None
    graph: Path | None
    plot: Path | None

    @classmethod
    def taken_from(cls, options: dict[str, OptionValue]) -> Kept:
        """Take the options of `keeping` out of others."""
        return cls(*(options.pop(name) for name in ("schedule_file", "graph_file", "plot")))

    @property
    def outputs(self) -> dict[str, Path | None]:
        """The files by option, for `check_outputs`."""
        return {"--schedule": self.schedule, "--graph": self.graph, "--plot": self.plot}

    def written(self, graph: ComputationGraph, plan: RuntimePlan) -> bool:
        """Write the files; return whether none failed."""
        from moccasin_mzn.deploy.source import schedule_document
        from moccasin_mzn.graphs.formats.node_link import graph_text
        from moccasin_mzn.report.plots.picture import Picture

        def picture() -> Picture:
            sequence = [action.node for action in plan.actions(graph)]
            return Picture.of_schedule(graph, sequence, graph.input_order(), plan.arenas[0])

        files = file_jobs(
            (self.schedule, lambda: json.dumps(schedule_document(graph, plan)) + "\n"),
            (self.graph, lambda: graph_text(graph)),
        )
        return write_files([*files, *pictures(self.plot, picture)])


def searching(*problem: Decorator, default: str = "60", seed: str = "Random seed of all searches.") -> Decorator:
    """Add the options of a search for a schedule, which are those of `solve`.

    Args:
        problem: further options of the problem.
        default: the default of the time limit, as the help shows it.
        seed: the help of --seed.
    """
    return added(
        option_group(
            "Search for a schedule, with --budget", BUDGET, MAX_COMPUTATIONS, ORDER_OR_FREE, COUNT_FIXED, *problem,
            *named_options("solver"),
            *named_options("time_limit", help=f"Seconds for the search.  [default: {default}]"),
            *named_options("until_gap", "threads"), *named_options("seed", help=seed),
            *named_options("search", "if_none"),
        )
    )  # fmt: skip


def search_asked(
    options: OptionValues, alignment: int | None = None, others: Container[str] = (), tile: str | None = None,
    step: int = 1,
) -> Search | None:  # fmt: skip
    """Return the search for a schedule; None without --budget, as there is no search then.

    Args:
        options: the options of `searching`.
        alignment: the alignment of offsets in an arena, which the budget is for; None: there are no offsets.
        others: names of options that are also used without a search.
        tile: in which parts outputs are computed, see `Tiles`.
        step: see `Search`.

    Raises:
        InputError: an option is nonsense, or is for a search and --budget is missing.
    """
    from moccasin_mzn.api.question import Question

    given = {name: value for name, value in options.items() if value is not None and value is not False}
    if "budget" not in given:
        if tile is not None:
            raise InputError("--tile is for a search: give --budget as well")
        for name, value in given.items():
            if name not in others and (name, value) != ("order", "input"):
                raise InputError(f"{flag(name)} is for a search: give --budget as well")
        return None
    given = {"time_limit": SEARCH_SECONDS, **given, "budget": Budget.parse(given["budget"]), "tile": tile}
    offsets = {} if alignment is None else {"addresses": True, "alignment": alignment}
    return Search(Question.of({**given, **offsets}, spelled=flag), step)


@dataclass(frozen=True)
class Search:
    """A search for a schedule that is to be deployed.

    A budget that is a fraction is one of the peak with sizes rounded up to multiples of the alignment.
    """

    question: Question
    step: int = 1
    """A runtime takes a multiple of it for an arena, so that the budget is one: an amount is rounded down, a fraction
    up, as what it is a fraction of may be none."""

    def request(self, graph: ComputationGraph, target: Target | None = None) -> Request:
        """Return the request about a graph; `target` computes parts."""
        from moccasin_mzn.api.tiling import LAYERS

        asked = replace(self.question, budget=self._rounded(graph))
        return asked.request(graph, partial(click.echo, err=True), target=target or LAYERS)

    def _rounded(self, graph: ComputationGraph) -> Budget:
        """The budget of an arena, with a line if it is not the one that was given."""
        budget, size, step = self.question.budget, self.question.offsets or 1, self.step
        problem = {"order": self.question.order, "count_fixed": self.question.count_fixed}
        given = Instance.build(graph, budget, **problem)
        amount = given.budget // step * step
        if budget.fraction is not None:
            amount = -(-Instance.build(padded(graph, size), budget, **problem).budget // step) * step
        if amount != given.budget:
            text = f"as an arena takes a multiple of {step}" if step > 1 else f"of outputs in multiples of {size}"
            click.echo(f"budget: {amount:,} bytes, {text}", err=True)
        return Budget(max(1, amount + given.fixed))


def schedule_of(graph: ComputationGraph, search: Search, target: Target | None = None) -> Result | None:
    """Search for a schedule; None, with a line on stderr, if there is none within the budget.

    Args:
        target: what computes parts; None: all nodes can be cut.
    """
    from moccasin_mzn.api.solve import answer
    from moccasin_mzn.search.call import Call

    begin, request = time.monotonic(), search.request(graph, target)
    with progress_lines(request) as lines:
        result = answer(request, Call(lines, begin=begin))
    if result.valid:
        return result
    click.echo(Page.INFEASIBLE.after(f"no schedule: {result.reason}"), err=True)
    return None


def searched_dict(result: Result | None) -> JsonObject:
    """What is known of a schedule that was searched for, for JSON; nothing without one."""
    if result is None:
        return {}
    return {name: getattr(result, name) for name in ("status", "reason", "duration", "bound", "tdi_percent")}


def files_read(options: OptionValues, **others: Path | None) -> dict[str, object]:
    """Return the files that a command reads, by description; they must not be overwritten."""
    named = {f"the {what}": path for what, path in others.items()}
    return {**named, "the order": options["order"], "a limit of computations": options["max_computations"]}
