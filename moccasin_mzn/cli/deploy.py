"""The commands `deploy ...`: plans for runtimes."""

from __future__ import annotations

import json
from functools import partial
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING

import click

from moccasin_mzn.cli.common import EXIT_FOUND, EXIT_NONE, IN_PLACE, check_outputs
from moccasin_mzn.cli.deploy_c import c
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
from moccasin_mzn.cli.deploy_tflite import tflite
from moccasin_mzn.cli.graphs import integers
from moccasin_mzn.cli.imports import (
    missing_of,
    onnx_options,
    source_of,
)
from moccasin_mzn.cli.invocation import command_line
from moccasin_mzn.cli.options import OptionValue, group
from moccasin_mzn.doc_links import Page
from moccasin_mzn.errors import InputError, located
from moccasin_mzn.files import JsonObject
from moccasin_mzn.formatting import count_text, memory_text
from moccasin_mzn.search.result import percent_over

if TYPE_CHECKING:
    from moccasin_mzn.deploy.onnx_deployment import Deployment
    from moccasin_mzn.deploy.onnx_session import Comparison
    from moccasin_mzn.search.result import Result


@group()
def deploy() -> None:
    """Write a plan as a file that a runtime executes: a model, or a C header; or a network as C."""


deploy.add_command(c)
deploy.add_command(tflite)

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


# --- deploy onnx ----------------------------------------------------------------------------------------------


@deploy.command()
@click.argument("model", type=click.Path(path_type=Path))
@click.argument("schedule", type=click.Path(path_type=Path), required=False)
@output("The new model to write.")
@onnx_options
@click.option("--reduced", is_flag=True,
              help="SCHEDULE is for the graph that `reduce` made of the imported one, in which elementwise operators "
                   "run in place.")  # fmt: skip
@IN_PLACE
@click.option("--check", is_flag=True,
              help="Run both models in ONNX Runtime on random inputs, in one thread, and compare their outputs bit for "
                   "bit, the order of operators, and the peak memory.")  # fmt: skip
@TILE
@click.option("--inputs", type=click.Path(path_type=Path), metavar="FILE.npz",
              help="With --check: an array for each input, by name, in place of random ones.")  # fmt: skip
@searching(seed="Random seed of all searches, and of the inputs of --check.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def onnx(
    model: Path, schedule: Path | None, output: Path, dims: tuple[str, ...], views: str, workspaces: bool,
    keep_results: bool, fold: str, optimize: str, unknown_size: tuple[str, ...], unknown_duration: str, reduced: bool,
    in_place: bool, check: bool, tile: str | None, inputs: Path | None, as_json: bool, **options: OptionValue,
) -> int:  # fmt: skip
    """Rewrite the ONNX file MODEL to follow SCHEDULE: operators in its order, and repeated where it recomputes.

    SCHEDULE is what `solve --output` wrote for the graph that `import onnx` made of MODEL; repeat the options of that
    import, and --in-place of `solve`, here. Without SCHEDULE, one within --budget is searched for, with multiply-adds
    as durations. Weights, inputs and outputs do not change. With --tile, operators are cut into several of their kind,
    each for a part of the output, with slices and concatenations of what they read.

    ONNX Runtime follows the order of a file only with the options in `moccasin_mzn.deploy.onnx_session`.

    Exit status 1: there is no schedule within the budget; or with --check, outputs are not equal (with --tile, but
    for rounding), or the measured peak is above the planned one. Then nothing is written.
    """
    from moccasin_mzn.deploy.onnx_deployment import Cutter, deploy, read_sequence, read_source
    from moccasin_mzn.deploy.onnx_session import compare
    from moccasin_mzn.graphs.importers.onnx.preparation import Fold, Optimize
    from moccasin_mzn.graphs.importers.onnx.runtime import runtime

    check_outputs({"--output": output}, files_read(options, model=model, schedule=schedule, inputs=inputs))
    if inputs is not None and not check:
        raise InputError("--inputs is for --check")
    if (schedule is None) == (options["budget"] is None):
        raise InputError("expected a schedule, or --budget to make one within it")
    if check:  # before the search
        runtime("--check")
    make_request, seed = request_maker(options, others=("seed",), tile=tile), options["seed"] or 0
    missing = missing_of(unknown_size, "0" if make_request is None else unknown_duration, None)
    source = read_source(
        model, dims=integers("--dim", dims), missing=missing,
        merge_views=views == "shared", keep_results=keep_results, workspaces=workspaces, fold=Fold(fold),
        optimize=Optimize(optimize), reduced=reduced, in_place=in_place, folder=output.parent,
    )  # fmt: skip
    made = None
    if make_request is None:
        assert schedule is not None
        sequence = read_sequence(schedule, source)
    else:
        cutter = Cutter(source)
        made = schedule_of(source.graph, make_request if tile is None else partial(make_request, cutting=cutter.cut))
        if made is None:
            return EXIT_NONE
        sequence = made.sequence
        source = source if tile is None else cutter.source_of(made.problem.graph)
    deployed = deploy(source, sequence)
    with located(model):
        found = compare(
            deployed.model, deployed.original, folder=model.parent, draws=deployed.draws,
            shared_views=views == "shared", in_place=source.runs_in_place, inputs=inputs, seed=seed,
        ) if check else None  # fmt: skip
    wrong = found is not None and (
        (found.equal is False and not (deployed.in_parts and found.is_rounded)) or found.peak > deployed.planned_values
    )
    if not wrong:
        _write(deployed, model, output)
    _print(deployed, made, found, None if wrong else output, as_json)
    return EXIT_NONE if wrong else EXIT_FOUND


def _write(deployed: Deployment, model: Path, output: Path) -> None:
    from moccasin_mzn.deploy.onnx_deployment import file_of
    from moccasin_mzn.files import replace_file
    from moccasin_mzn.graphs.importers.onnx.file import versions
    from moccasin_mzn.graphs.provenance import ATTRIBUTE, made_by

    record = made_by(command_line(), versions(), source=source_of(model, output), peak=deployed.planned_peak)
    deployed.model.metadata_props.add(key=ATTRIBUTE, value=json.dumps(record))
    with located(model):
        data = file_of(deployed.model)
    replace_file(output, data)


def _print(
    deployed: Deployment, made: Result | None, found: Comparison | None, output: Path | None, as_json: bool
) -> None:
    for note in deployed.notes:
        click.echo(f"note: {note}", err=True)
    if as_json:
        click.echo(json.dumps(_deployment_dict(deployed, made, found)))
        return
    if made is not None:
        click.echo(_schedule_line(made))
    click.echo(f"{'not written' if output is None else output}: {_deployment_line(deployed)}")
    for line in () if found is None else _comparison_lines(deployed, found):
        click.echo(line)


def _schedule_line(made: Result) -> str:
    """Return status, reason, duration and bound of the schedule that was searched for, in a line."""
    over = percent_over(made.bound, made.instance.baseline.duration)
    return f"{made.status}: {made.reason}; duration +{made.tdi_percent:.3f} %, bound +{over:.3f} %"


def _deployment_line(deployed: Deployment) -> str:
    """Return counts and the planned peak, in a line."""
    recomputations = deployed.computations - deployed.nodes
    peaks = [memory_text(peak, "byte") for peak in (deployed.planned_peak, deployed.former_peak)]
    return (
        f"{count_text(deployed.nodes, 'operator')}, {count_text(recomputations, 'recomputation')}: "
        f"{len(deployed.model.graph.node):,} in the file, planned peak {peaks[0]} instead of {peaks[1]}"
    )


_QUANTIZING = frozenset(("QuantizeLinear", "QLinearConv", "QLinearMatMul", "ConvInteger", "MatMulInteger"))
_TIES = (
    "a number halfway between two steps of a quantized tensor may go to either, by how a kernel adds up an image of "
    "that size, and the step is that large: round scales, such as powers of two, make many of these"
)


def _comparison_lines(deployed: Deployment, found: Comparison) -> list[str]:
    """Return the results of running both models, in lines."""
    equal = {
        True: "outputs are equal, bit for bit",
        False: "outputs are not equal",
        None: "outputs are not equal, but the model draws numbers, which are others in each file",
    }
    if deployed.in_parts and not found.equal:
        units = f"{found.rounding:.3g} units in the last place of the largest number"
        why = f"; {_TIES}" if any(node.op_type in _QUANTIZING for node in deployed.model.graph.node) else ""
        equal[False] = (
            f"outputs are equal within {units}" if found.is_rounded else f"outputs are not equal: {units}{why}"
        )
    names = ("the new model", "the model in the order of its file", "the model in the order of ONNX Runtime")
    peaks = (found.peak, found.former_peak, found.usual_peak)
    lines = [equal[found.equal], f"order: {_order(found)}"]
    if found.peak > deployed.planned_values:
        over = percent_over(found.peak, deployed.planned_values)
        planned = memory_text(deployed.planned_values, "byte")
        lines.append(f"the measured peak is above the planned one, {planned} of values: by {over:.1f} %")
    return lines + [
        f"measured peak of {name}: {memory_text(peak, 'byte')}" for name, peak in zip(names, peaks, strict=True)
    ]


def _order(found: Comparison) -> str:
    if found.late is None:
        return "that of the schedule"
    return f"not that of the schedule: ONNX Runtime moves {found.late}, or takes it apart"


def _deployment_dict(deployed: Deployment, made: Result | None, found: Comparison | None) -> JsonObject:
    """Return the same for JSON, without what was not searched for or not measured."""
    document = {
        "operators": deployed.nodes,
        "computations": deployed.computations,
        "planned_peak": deployed.planned_peak,
        "planned_values": deployed.planned_values,
        "former_peak": deployed.former_peak,
        "notes": [*deployed.notes],
    }
    if made is not None:
        document |= {name: getattr(made, name) for name in ("status", "reason", "duration", "bound", "tdi_percent")}
    if found is None:
        return document
    return document | {
        "equal": found.equal,
        **({"rounding": found.rounding if isfinite(found.rounding) else None} if deployed.in_parts else {}),
        "in_order": found.late is None,
        "within_plan": found.peak <= deployed.planned_values,
        "measured_peak": found.peak,
        "measured_former_peak": found.former_peak,
        "measured_usual_peak": found.usual_peak,
    }
