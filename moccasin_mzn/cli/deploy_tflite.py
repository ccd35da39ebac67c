"""The command `deploy tflite`: a TFLite model that follows a plan, with its offsets for TensorFlow Lite Micro."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from moccasin_mzn.base.clock import Deadline
from moccasin_mzn.base.doc_links import Page
from moccasin_mzn.base.errors import InputError, explained, located
from moccasin_mzn.base.files import Json, JsonObject
from moccasin_mzn.base.formatting import count_text
from moccasin_mzn.base.option import flag
from moccasin_mzn.cli.common import EXIT_BAD_INPUT, EXIT_FOUND, EXIT_NONE, ZERO_COPY_CONCAT, check_outputs
from moccasin_mzn.cli.deploy_options import (
    ALIGNMENT,
    EFFORT,
    JSON,
    TILE,
    Kept,
    files_read,
    keeping,
    output,
    schedule_of,
    search_asked,
    searched_dict,
    searching,
)
from moccasin_mzn.cli.options import Choice, OptionValue, command

if TYPE_CHECKING:
    from ai_edge_litert.schema_py_generated import ModelT

    from moccasin_mzn.deploy.tflite_checking import Checked
    from moccasin_mzn.deploy.tflite_micro import Micro
    from moccasin_mzn.graphs.graph import ComputationGraph, NodeId
    from moccasin_mzn.problem.runtime_plan import RuntimePlan
    from moccasin_mzn.search.options import Effort
    from moccasin_mzn.search.result import Result


_TURNS = 4
"""Plans that are made at most; each leaves free what the one before took over the budget."""
_SHORTEST = 0.2
"""Seconds that each of them has at least."""


@command()
@click.argument("model", type=click.Path(path_type=Path))
@click.argument("plan", type=click.Path(path_type=Path), required=False)
@output("The new model to write.")
@ALIGNMENT
@TILE
@ZERO_COPY_CONCAT
@click.option("--check/--no-check", default=None,
              help="Run both models on random inputs, in LiteRT's reference kernels and, where it is installed, in "
                   "TensorFlow Lite Micro, and write the new one only if outputs are equal, bit for bit.  "
                   "[default: --check where LiteRT is installed]")  # fmt: skip
@searching(
    click.option("--budget-for", type=Choice(("total", "tensors")), default="total", show_default=True,
                 help="What --budget is for: all that TFLite Micro's arena takes, or tensors alone."),
    default="60, for offsets alone 10", seed="Random seed of all searches, and of the inputs of --check.",
)  # fmt: skip
@keeping()
@JSON
def tflite(
    model: Path, plan: Path | None, output: Path, alignment: int | None, tile: str | None, zero_copy_concat: bool,
    check: bool | None, budget_for: str, as_json: bool, **options: OptionValue,
) -> int:  # fmt: skip
    """Write the TFLite MODEL with its operators in the order of PLAN, and with PLAN's offsets for TFLite Micro.

    PLAN is what `solve --output` writes for the graph that `import tflite` makes of MODEL. Without PLAN, one whose
    arena is within --budget is searched for: tensors, and what TFLite Micro keeps for each operator. If the plan has
    no offsets, or some are not multiples of 16, they are searched for. With --tile, operators are cut into several of
    their kind, each for a part of the output, with the slices, concatenations and padding that they need; auto takes
    the coarsest parts whose total is within the budget.
    With --zero-copy-concat, inputs of concatenations lie where the output is, wherever they can, so that TFLite Micro
    copies them to where they are; a PLAN is then for such a graph, made with --addresses --alignment 16.

    Exit status 1: there is no schedule within the budget, or outputs are not equal, and nothing is written.
    """
    from moccasin_mzn.api.modes import asked, refuse_ways
    from moccasin_mzn.base.files import load_bytes, replace_file
    from moccasin_mzn.deploy.tflite_checking import is_runtime_installed
    from moccasin_mzn.graphs.importers.tflite import ALIGNMENT as LEAST
    from moccasin_mzn.graphs.importers.tflite import SIZE_LIMIT

    step = alignment or LEAST
    kept = Kept.taken_from(options)
    check_outputs({"--output": output, **kept.outputs}, files_read(options, model=model, plan=plan))
    if (plan is None) == (options["budget"] is None):
        raise InputError("expected a plan, or --budget to make one within it")
    if step % LEAST:
        raise InputError(f"--alignment {step}: TFLite Micro wants multiples of {LEAST}")
    ways = asked({"zero_copy_concat": zero_copy_concat, "tile": tile}, flag)
    refuse_ways(ways, ways)
    former = load_bytes(model, SIZE_LIMIT)
    run = former if (is_runtime_installed() if check is None else check) else None
    planned = _Asked(model, plan, step, tile, zero_copy_concat, options, run, total=budget_for == "total")
    answer = planned.answer()
    if answer is None:
        return EXIT_NONE
    found, done, wrong = answer
    all_written = True
    if not wrong:
        replace_file(output, found.data)
        all_written = kept.written(found.graph, found.plan)
    _print(found, done, wrong, output, as_json)
    return EXIT_NONE if wrong else EXIT_FOUND if all_written else EXIT_BAD_INPUT


class _Planned:
    """The new model, and what is known of it before it runs."""

    def __init__(
        self, model: ModelT, graph: ComputationGraph, plan: RuntimePlan, taken_out: frozenset[NodeId],
        searched: Result | None,
    ) -> None:  # fmt: skip
        from moccasin_mzn.deploy.tflite_micro import Micro, persistent_in
        from moccasin_mzn.graphs.importers.tflite import ALIGNMENT as LEAST

        computed = [step.node for step in plan.steps if step.begin is None]
        arena = -(-plan.arenas[0] // LEAST) * LEAST  # as TFLite Micro rounds sizes up
        self.graph, self.plan, self.searched, self.in_parts = graph, plan, searched, graph.parts is not None
        self.recomputed = len(computed) - len({*computed})
        self.data = _data_of(model, plan, taken_out)
        self.new = Micro(arena, persistent_in(self.data), measured=False)


@dataclass
class _Asked:
    """A model and what is asked about it."""

    path: Path
    plan: Path | None
    step: int
    tile: str | None
    zero_copy: bool
    options: dict[str, OptionValue]
    run: bytes | None
    """The model, which is run next to the new one; None: neither is."""
    total: bool
    """The budget is for all that the arena takes."""
    limit: int | None = None
    """The budget in total without fixed memory, once it is known."""

    def answer(self) -> tuple[_Planned, Checked | None, str] | None:
        """The new model, what its run showed, and what is wrong with it; None: no schedule is within the budget.

        What the interpreter takes beyond what is planned is left free by the next plan.
        """
        from moccasin_mzn.cli.deploy_options import SEARCH_SECONDS
        from moccasin_mzn.deploy.tflite_checking import checked

        given, spare, turn = self.options["time_limit"], 0, 1
        deadline = Deadline(SEARCH_SECONDS if given is None else float(str(given)))
        while (found := self._planned(spare)) is not None:
            done = None
            if self.run is not None:
                with located(self.path):
                    done = checked(self.run, found.data, int(str(self.options["seed"] or 0)), found.new.persistent)
            wrong, total = "" if done is None else done.wrong, _taken(found, done).total
            if wrong or self.limit is None or total <= self.limit:
                return found, done, wrong
            above = f"{total:,} bytes in total are over the budget of {self.limit:,}"
            if turn == _TURNS:
                return found, done, above
            click.echo(f"{above}: once more with fewer for tensors", err=True)
            spare, turn = spare + total - self.limit, turn + 1
            self.options["time_limit"] = max(_SHORTEST, deadline.remaining() or 0.0)
        return None

    def _planned(self, spare: int) -> _Planned | None:
        """The model that follows a plan; None: no schedule is within the budget.

        Args:
            spare: bytes of the budget that are left free.
        """
        from moccasin_mzn.api.tiling import Target
        from moccasin_mzn.base.files import load_json
        from moccasin_mzn.deploy.source import planned
        from moccasin_mzn.deploy.tflite_tiling import TfliteCutter
        from moccasin_mzn.graphs.importers.tflite import ALIGNMENT as LEAST
        from moccasin_mzn.graphs.importers.tflite import graph_of, read_model
        from moccasin_mzn.graphs.zero_copy import alignment_for
        from moccasin_mzn.graphs.zero_copy import zero_copy_concat as without_concatenations
        from moccasin_mzn.search.options import Effort

        search = search_asked(self.options, self.step, EFFORT, self.tile, LEAST)
        network, document = read_model(self.path), None if self.plan is None else load_json(self.plan, Page.PLAN_FORMAT)
        with located(self.path):
            graph, taken_out = graph_of(network, self.path.stem), frozenset[int | str]()
        if search is not None and self.total:
            budget = self._for_tensors(network, graph, spare)
            search = search_asked(self.options | {"budget": budget}, self.step, EFFORT, self.tile, LEAST)
        if self.zero_copy:
            copying = without_concatenations(graph, self.step if self.plan is None else alignment_for(document))
            click.echo(copying.text(), err=True)
            graph, taken_out = copying.graph, frozenset(graph.nodes[v] for v in copying.taken_out)
        if search is None:
            effort = Effort(*(self.options[name] for name in EFFORT))
            with located(self.plan), explained(Page.PLAN_FORMAT):
                found = _placed_plan(document, graph, self.step, effort)
            return _Planned(network, graph, found, taken_out, None)
        cutter = TfliteCutter(network)
        target = Target(cutter.cut, cutter.whole, cutter.persistent if self.total else None)
        result = schedule_of(graph, search, target)
        if result is None:
            return None
        if self.tile is not None:
            network, graph = cutter.model_of(result.problem.graph), result.problem.graph
        return _Planned(network, graph, planned(result), taken_out, result)

    def _for_tensors(self, network: ModelT, graph: ComputationGraph, spare: int) -> str:
        """The budget for tensors that leaves what stays of whole layers, each computed once."""
        from moccasin_mzn.deploy.tflite_micro import persistent_of
        from moccasin_mzn.graphs.importers.tflite import ALIGNMENT as LEAST
        from moccasin_mzn.problem.budget import Budget
        from moccasin_mzn.problem.instance import Instance
        from moccasin_mzn.problem.placing import padded

        budget, stays = Budget.parse(str(self.options["budget"])), persistent_of(network, graph, graph.input_order())
        problem = {"order": self.options["order"], "count_fixed": bool(self.options["count_fixed"])}
        whole = Instance.build(padded(graph, self.step), "100%", **problem)
        self.limit = budget.resolve(whole.budget + whole.fixed + stays) - whole.fixed
        room = max(0, (self.limit - stays - spare) // LEAST * LEAST)
        click.echo(f"budget: {self.limit:,} bytes in total, {stays:,} that stay of whole layers, {room:,} for tensors",
                   err=True)  # fmt: skip
        return str(max(1, room + whole.fixed))


def _taken(found: _Planned, done: Checked | None) -> Micro:
    """What the new model takes: measured, or as it is planned."""
    from moccasin_mzn.deploy.tflite_micro import Runs

    return done.micro.new if done is not None and isinstance(done.micro, Runs) else found.new


def _data_of(model: ModelT, plan: RuntimePlan, taken_out: frozenset[NodeId]) -> bytes:
    """The file of the new model."""
    from moccasin_mzn.deploy.tflite_model import planned_model

    return planned_model(model, plan, taken_out)


def _placed_plan(document: Json, graph: ComputationGraph, alignment: int, effort: Effort) -> RuntimePlan:
    """The plan of a graph in the content of its file, with offsets for all outputs."""
    from moccasin_mzn.deploy.source import placed, with_all_outputs
    from moccasin_mzn.problem.files.plan_format import runtime_plan
    from moccasin_mzn.problem.placing import check_places

    plan = with_all_outputs(runtime_plan(document, graph))
    check_places(graph, alignment)
    return placed(plan, alignment, effort)


# --- What is printed ------------------------------------------------------------------------------------------


def _print(found: _Planned, done: Checked | None, wrong: str, output: Path, as_json: bool) -> None:
    from moccasin_mzn.deploy.tflite_micro import Runs

    runs = done.micro if done is not None and isinstance(done.micro, Runs) else None
    new = _taken(found, done)
    notes = _notes(found, done, runs, new)
    for note in notes:
        click.echo(f"note: {note}", err=True)
    if as_json:
        click.echo(json.dumps(_document(found, done, runs, written=not wrong) | {"notes": notes}))
        return
    recomputed = f"{count_text(found.recomputed, 'operator')} recomputed"
    click.echo(f"{f'not written: {wrong}' if wrong else output}: arena {found.new.tensors:,} bytes, {recomputed}")
    known = "measured" if new.measured else "planned"
    click.echo(
        f"TensorFlow Lite Micro: {new.total:,} bytes in total ({known}), {new.tensors:,} of tensors and "
        f"{new.persistent:,} that stay"
    )
    if runs is not None:
        click.echo(f"the model as it is: {runs.former.total:,} bytes in total, {runs.former.tensors:,} of tensors")


def _notes(found: _Planned, done: Checked | None, runs: object, new: Micro) -> list[str]:
    """What one has to know further."""
    notes = []
    if done is not None and done.lite:
        notes.append(f"both models have run in TensorFlow Lite Micro alone: {done.lite}")
    if done is None:
        notes.append("the new model has not been run")
    elif isinstance(done.micro, str):
        notes.append(f"what stays is by a formula: {done.micro}")
    elif new.tensors != found.new.tensors:
        notes.append(f"{found.new.tensors:,} bytes are planned for tensors, kernels take {new.tensors:,} with scratch")
    elif new.persistent != found.new.persistent:
        notes.append(f"{found.new.persistent:,} bytes are planned to stay, and {new.persistent:,} do")
    if done is not None and done.equal is None:
        notes.append("the model draws numbers, so that outputs are not compared")
    former = getattr(getattr(runs, "former", None), "total", None)
    if found.in_parts and former is not None and new.total >= former:
        notes.append(
            f"in parts TensorFlow Lite Micro takes no less in total than the model as it is ({former:,} bytes), since "
            "each operator takes memory that stays: a larger budget needs fewer parts"
        )
    return notes


def _document(found: _Planned, done: Checked | None, runs: object, written: bool) -> JsonObject:
    from moccasin_mzn.deploy.tflite_micro import Runs

    new, planned = _taken(found, done), found.new
    document: JsonObject = {
        "written": written, "arena": found.new.tensors, "recomputations": found.recomputed,
        "planned": {"tensors": planned.tensors, "persistent": planned.persistent, "total": planned.total},
        "micro": {"tensors": new.tensors, "persistent": new.persistent, "total": new.total, "measured": new.measured},
        "equal": None if done is None else done.equal, "checked": done is not None,
    }  # fmt: skip
    if isinstance(runs, Runs):
        one = runs.former
        document["former"] = {"tensors": one.tensors, "persistent": one.persistent, "total": one.total}
        document["equal_in_micro"] = runs.equal
    return document | searched_dict(found.searched)
