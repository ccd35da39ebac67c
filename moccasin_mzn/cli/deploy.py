"""The commands `deploy ...`: plans for runtimes."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from moccasin_mzn.cli.common import EXIT_FOUND, EXIT_NONE, ZERO_COPY_CONCAT, check_outputs
from moccasin_mzn.cli.deploy_c import c
from moccasin_mzn.cli.deploy_onnx import onnx
from moccasin_mzn.cli.deploy_options import (
    ALIGNMENT,
    EFFORT,
    TILE,
    files_read,
    output,
    request_maker,
    schedule_of,
    searching,
)
from moccasin_mzn.cli.options import OptionValue, group
from moccasin_mzn.doc_links import Page
from moccasin_mzn.errors import InputError, explained, located
from moccasin_mzn.files import Json

if TYPE_CHECKING:
    from moccasin_mzn.graphs.graph import ComputationGraph
    from moccasin_mzn.problem.runtime_plan import RuntimePlan
    from moccasin_mzn.search.options import Effort


@group()
def deploy() -> None:
    """Write a plan as a file that a runtime executes: a model, or a C header; or a network as C."""


deploy.add_command(c)
deploy.add_command(onnx)

# --- deploy c-header ------------------------------------------------------------------------------------------


@deploy.command(name="c-header")
@click.argument("plan", type=click.Path(path_type=Path))
@output("The header to write.")
@click.option("--prefix", default="plan", show_default=True, metavar="NAME", help="Prefix of all names in the header.")
@ALIGNMENT
@searching(default="60, for offsets alone 10")
def c_header(plan: Path, output: Path, prefix: str, alignment: int | None, **options: OptionValue) -> int:
    """Write PLAN as a header for C99 and C++, with the offsets, sizes and reads of each step in constant arrays.

    PLAN is what `solve --output` writes; if it has no offsets, they are searched for. PLAN may also be a graph: then a
    schedule whose arena is within --budget is searched for. data/run_plan.c is an example that executes such a header.

    Exit status 1: there is no schedule within the budget.
    """
    from moccasin_mzn.deploy.c_header import c_header as header_of
    from moccasin_mzn.deploy.source import placed, plan_in, planned, with_all_outputs
    from moccasin_mzn.files import replace_file
    from moccasin_mzn.formatting import count_text
    from moccasin_mzn.graphs.formats import read_graph
    from moccasin_mzn.search.options import Effort

    effort = Effort(*(options[name] for name in EFFORT))
    check_outputs({"--output": output}, files_read(options, plan=plan))
    make_request = request_maker(options, alignment or 1, EFFORT)
    given = plan_in(plan)
    if given is not None and make_request is not None:
        raise InputError("--budget is for a graph: a plan has a budget of its own")
    if given is not None:
        found = placed(with_all_outputs(given), alignment, effort)
    elif make_request is None:
        message = f"{plan}: no plan for runtimes; of a graph one is made within --budget"
        raise InputError(Page.PLAN_FORMAT.after(message))
    else:
        result = schedule_of(read_graph(plan), make_request)
        if result is None:
            return EXIT_NONE
        found = planned(result)
    replace_file(output, header_of(found, prefix))
    arenas = zip(found.memories, found.arenas, strict=True)
    sizes = ", ".join(f"{name} {size:,}" for name, size in arenas)
    click.echo(f"{output}: {count_text(len(found.steps), 'step')}, {sizes} bytes")
    return EXIT_FOUND


# --- deploy tflite --------------------------------------------------------------------------------------------


@deploy.command()
@click.argument("model", type=click.Path(path_type=Path))
@click.argument("plan", type=click.Path(path_type=Path), required=False)
@output("The new model to write.")
@ALIGNMENT
@TILE
@ZERO_COPY_CONCAT
@searching(default="60, for offsets alone 10")
def tflite(
    model: Path, plan: Path | None, output: Path, alignment: int | None, tile: str | None, zero_copy_concat: bool,
    **options: OptionValue,
) -> int:  # fmt: skip
    """Write the TFLite MODEL with its operators in the order of PLAN, and with PLAN's offsets for TFLite Micro.

    PLAN is what `solve --output` writes for the graph that `import tflite` makes of MODEL. Without PLAN, one whose
    arena is within --budget is searched for. If the plan has no offsets, or some are not multiples of 16, they are
    searched for. With --tile, operators are cut into several of their kind, each for a part of the output, with the
    slices, concatenations and padding that they need. With --zero-copy-concat, inputs of concatenations lie where the
    output is, wherever they can, so that TFLite Micro copies them to where they are; a PLAN is then for such a graph,
    made with --addresses --alignment 16.

    Exit status 1: there is no schedule within the budget.
    """
    from moccasin_mzn.deploy.source import planned
    from moccasin_mzn.deploy.tflite_model import planned_model
    from moccasin_mzn.deploy.tflite_tiling import Cutter
    from moccasin_mzn.files import load_json, replace_file
    from moccasin_mzn.formatting import count_text
    from moccasin_mzn.graphs.importers.tflite import ALIGNMENT as LEAST
    from moccasin_mzn.graphs.importers.tflite import graph_of, read_model
    from moccasin_mzn.graphs.zero_copy import alignment_for
    from moccasin_mzn.graphs.zero_copy import zero_copy_concat as without_concatenations
    from moccasin_mzn.search.options import Effort

    effort, step = Effort(*(options[name] for name in EFFORT)), alignment or LEAST
    check_outputs({"--output": output}, files_read(options, model=model, plan=plan))
    if (plan is None) == (options["budget"] is None):
        raise InputError("expected a plan, or --budget to make one within it")
    if step % LEAST:
        raise InputError(f"--alignment {step}: TFLite Micro wants multiples of {LEAST}")
    make_request = request_maker(options, step, EFFORT, tile, LEAST)
    if zero_copy_concat and tile is not None:
        raise InputError("--zero-copy-concat is for whole layers: leave out --tile")
    network, document = read_model(model), None if plan is None else load_json(plan, Page.PLAN_FORMAT)
    with located(model):
        graph, taken_out = graph_of(network, model.stem), frozenset[int | str]()
    if zero_copy_concat:
        copying = without_concatenations(graph, step if plan is None else alignment_for(document))
        click.echo(copying.text(), err=True)
        graph, taken_out = copying.graph, frozenset(graph.nodes[v] for v in copying.taken_out)
    cutter = Cutter(network)
    if make_request is not None and tile is not None:
        make_request = partial(make_request, cutting=cutter.cut)
    if make_request is None:
        with located(plan), explained(Page.PLAN_FORMAT):
            found = _placed_plan(document, graph, step, effort)
    else:
        result = schedule_of(graph, make_request)
        if result is None:
            return EXIT_NONE
        found = planned(result)
        if tile is not None:
            network, graph = cutter.model_of(result.problem.graph), result.problem.graph
    replace_file(output, planned_model(network, found, taken_out))
    computed = [step.node for step in found.steps if step.begin is None]
    recomputed = count_text(len(computed) - len({*computed}), "operator")
    arena = -(-found.arenas[0] // LEAST) * LEAST  # as TFLite Micro rounds sizes up
    click.echo(f"{output}: arena {arena:,} bytes, {recomputed} recomputed")
    return EXIT_FOUND


def _placed_plan(document: Json, graph: ComputationGraph, alignment: int, effort: Effort) -> RuntimePlan:
    """The plan of a graph in the content of its file, with offsets for all outputs."""
    from moccasin_mzn.deploy.source import placed, with_all_outputs
    from moccasin_mzn.problem.files.plan_format import runtime_plan
    from moccasin_mzn.problem.placing import check_places

    plan = with_all_outputs(runtime_plan(document, graph))
    check_places(graph, alignment)
    return placed(plan, alignment, effort)
