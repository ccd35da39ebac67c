"""The command `deploy tflite`: a TFLite model that follows a plan, with its offsets for TensorFlow Lite Micro."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from moccasin_mzn.cli.common import EXIT_FOUND, EXIT_NONE, ZERO_COPY_CONCAT, check_outputs
from moccasin_mzn.cli.deploy_options import (
    ALIGNMENT,
    EFFORT,
    JSON,
    TILE,
    files_read,
    output,
    request_maker,
    schedule_of,
    searched_dict,
    searching,
)
from moccasin_mzn.cli.options import OptionValue, command
from moccasin_mzn.doc_links import Page
from moccasin_mzn.errors import InputError, explained, located
from moccasin_mzn.files import Json, JsonObject
from moccasin_mzn.formatting import count_text

if TYPE_CHECKING:
    from ai_edge_litert.schema_py_generated import ModelT

    from moccasin_mzn.deploy.tflite_checking import Checked
    from moccasin_mzn.deploy.tflite_micro import Micro
    from moccasin_mzn.graphs.graph import ComputationGraph, NodeId
    from moccasin_mzn.problem.runtime_plan import RuntimePlan
    from moccasin_mzn.search.options import Effort
    from moccasin_mzn.search.result import Result


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
@searching(default="60, for offsets alone 10", seed="Random seed of all searches, and of the inputs of --check.")
@JSON
def tflite(
    model: Path, plan: Path | None, output: Path, alignment: int | None, tile: str | None, zero_copy_concat: bool,
    check: bool | None, as_json: bool, **options: OptionValue,
) -> int:  # fmt: skip
    """Write the TFLite MODEL with its operators in the order of PLAN, and with PLAN's offsets for TFLite Micro.

    PLAN is what `solve --output` writes for the graph that `import tflite` makes of MODEL. Without PLAN, one whose
    arena is within --budget is searched for. If the plan has no offsets, or some are not multiples of 16, they are
    searched for. With --tile, operators are cut into several of their kind, each for a part of the output, with the
    slices, concatenations and padding that they need; auto takes the parts with which TFLite Micro's total is least.
    With --zero-copy-concat, inputs of concatenations lie where the output is, wherever they can, so that TFLite Micro
    copies them to where they are; a PLAN is then for such a graph, made with --addresses --alignment 16.

    Exit status 1: there is no schedule within the budget, or outputs are not equal, and nothing is written.
    """
    from moccasin_mzn.deploy.tflite_checking import checked, is_runtime_installed
    from moccasin_mzn.files import load_bytes, replace_file
    from moccasin_mzn.graphs.importers.tflite import ALIGNMENT as LEAST
    from moccasin_mzn.graphs.importers.tflite import SIZE_LIMIT

    step = alignment or LEAST
    check_outputs({"--output": output}, files_read(options, model=model, plan=plan))
    if (plan is None) == (options["budget"] is None):
        raise InputError("expected a plan, or --budget to make one within it")
    if step % LEAST:
        raise InputError(f"--alignment {step}: TFLite Micro wants multiples of {LEAST}")
    if zero_copy_concat and tile is not None:
        raise InputError("--zero-copy-concat is for whole layers: leave out --tile")
    former = load_bytes(model, SIZE_LIMIT)
    found = _planned(model, plan, step, tile, zero_copy_concat, options)
    if found is None:
        return EXIT_NONE
    done = None
    if is_runtime_installed() if check is None else check:
        with located(model):
            done = checked(former, found.data, int(str(options["seed"] or 0)), found.new.persistent)
    wrong = "" if done is None else done.wrong
    if not wrong:
        replace_file(output, found.data)
    _print(found, done, wrong, output, as_json)
    return EXIT_NONE if wrong else EXIT_FOUND


class _Planned:
    """The new model, and what is known of it before it runs."""

    def __init__(
        self, model: ModelT, graph: ComputationGraph, plan: RuntimePlan, taken_out: frozenset[NodeId],
        former: int, searched: Result | None,
    ) -> None:  # fmt: skip
        from moccasin_mzn.deploy.tflite_micro import Micro, persistent_of
        from moccasin_mzn.graphs.importers.tflite import ALIGNMENT as LEAST

        computed = [step.node for step in plan.steps if step.begin is None]
        positions = [graph.position_of(node) for node in computed]
        arena = -(-plan.arenas[0] // LEAST) * LEAST  # as TFLite Micro rounds sizes up
        self.new = Micro(arena, persistent_of(model, graph, positions), measured=False)
        self.former_persistent, self.searched, self.in_parts = former, searched, graph.parts is not None
        self.recomputed = len(computed) - len({*computed})
        self.data = _data_of(model, plan, taken_out)


def _data_of(model: ModelT, plan: RuntimePlan, taken_out: frozenset[NodeId]) -> bytes:
    """The file of the new model."""
    from moccasin_mzn.deploy.tflite_model import planned_model

    return planned_model(model, plan, taken_out)


def _planned(
    path: Path, plan: Path | None, step: int, tile: str | None, zero_copy: bool, options: dict[str, OptionValue]
) -> _Planned | None:  # fmt: skip
    """The model that follows a plan; None: no schedule is within the budget."""
    from moccasin_mzn.deploy.source import planned
    from moccasin_mzn.deploy.tflite_micro import persistent_of
    from moccasin_mzn.deploy.tflite_tiling import Cutter
    from moccasin_mzn.files import load_json
    from moccasin_mzn.graphs.importers.tflite import ALIGNMENT as LEAST
    from moccasin_mzn.graphs.importers.tflite import graph_of, read_model
    from moccasin_mzn.graphs.zero_copy import alignment_for
    from moccasin_mzn.graphs.zero_copy import zero_copy_concat as without_concatenations
    from moccasin_mzn.search.options import Effort

    make_request = request_maker(options, step, EFFORT, tile, LEAST)
    network, document = read_model(path), None if plan is None else load_json(plan, Page.PLAN_FORMAT)
    with located(path):
        graph, taken_out = graph_of(network, path.stem), frozenset[int | str]()
    former = persistent_of(network, graph, graph.input_order())
    if zero_copy:
        copying = without_concatenations(graph, step if plan is None else alignment_for(document))
        click.echo(copying.text(), err=True)
        graph, taken_out = copying.graph, frozenset(graph.nodes[v] for v in copying.taken_out)
    if make_request is None:
        effort = Effort(*(options[name] for name in EFFORT))
        with located(plan), explained(Page.PLAN_FORMAT):
            found = _placed_plan(document, graph, step, effort)
        return _Planned(network, graph, found, taken_out, former, None)
    cutter = Cutter(network)
    if tile is not None:
        make_request = partial(make_request, cutting=cutter.cut, whole=cutter.whole, weigh=cutter.persistent)
    result = schedule_of(graph, make_request)
    if result is None:
        return None
    if tile is not None:
        network, graph = cutter.model_of(result.problem.graph), result.problem.graph
    return _Planned(network, graph, planned(result), taken_out, former, result)


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
    new = found.new if runs is None else runs.new
    notes = _notes(found, done, runs, new)
    for note in notes:
        click.echo(f"note: {note}", err=True)
    if as_json:
        click.echo(json.dumps(_document(found, done, runs, written=not wrong) | {"notes": notes}))
        return
    recomputed = f"{count_text(found.recomputed, 'operator')} recomputed"
    click.echo(f"{f'not written: {wrong}' if wrong else output}: arena {found.new.tensors:,} bytes, {recomputed}")
    known = "measured" if new.measured else "estimated"
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
        notes.append(f"what stays is estimated: {done.micro}")
    elif new.tensors != found.new.tensors:
        notes.append(f"{found.new.tensors:,} bytes are planned for tensors, kernels take {new.tensors:,} with scratch")
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

    new = runs.new if isinstance(runs, Runs) else found.new
    document: JsonObject = {
        "written": written, "arena": found.new.tensors, "recomputations": found.recomputed,
        "micro": {"tensors": new.tensors, "persistent": new.persistent, "total": new.total, "measured": new.measured},
        "equal": None if done is None else done.equal, "checked": done is not None,
    }  # fmt: skip
    if isinstance(runs, Runs):
        one = runs.former
        document["former"] = {"tensors": one.tensors, "persistent": one.persistent, "total": one.total}
        document["equal_in_micro"] = runs.equal
    return document | searched_dict(found.searched)
