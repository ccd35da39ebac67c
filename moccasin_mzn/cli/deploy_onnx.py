"""The command `deploy onnx`: an ONNX model that follows a schedule, and that ran before it is written."""

from __future__ import annotations

import json
from dataclasses import replace
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING

import click

from moccasin_mzn.base.errors import InputError, located
from moccasin_mzn.base.files import JsonObject
from moccasin_mzn.base.formatting import count_text, memory_text
from moccasin_mzn.cli.common import EXIT_FOUND, EXIT_NONE, IN_PLACE, check_outputs
from moccasin_mzn.cli.deploy_options import TILE, files_read, output, schedule_of, search_asked, searching
from moccasin_mzn.cli.imports import onnx_import_in, onnx_options, source_of
from moccasin_mzn.cli.invocation import command_line
from moccasin_mzn.cli.options import OptionValue, command
from moccasin_mzn.search.result import percent_over

if TYPE_CHECKING:
    from moccasin_mzn.deploy.onnx_comparing import Comparison, Reference
    from moccasin_mzn.deploy.onnx_deployment import Deployment, Source
    from moccasin_mzn.search.result import Result


@command()
@click.argument("model", type=click.Path(path_type=Path))
@click.argument("schedule", type=click.Path(path_type=Path), required=False)
@output("The new model to write.")
@onnx_options
@click.option("--reduced", is_flag=True,
              help="SCHEDULE is for the graph that `reduce` made of the imported one, in which elementwise operators "
                   "run in place.")  # fmt: skip
@IN_PLACE
@click.option("--check/--no-check", default=None,
              help="Run both models in ONNX Runtime on random inputs, in one thread, before anything is written, and "
                   "compare their outputs bit for bit, the order of operators, and the peak memory.  [default: where "
                   "onnxruntime is installed]")  # fmt: skip
@TILE
@click.option("--inputs", type=click.Path(path_type=Path), metavar="FILE.npz",
              help="With --check: an array for each input, by name, in place of random ones.")  # fmt: skip
@searching(seed="Random seed of all searches, and of the inputs of --check.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def onnx(
    model: Path, schedule: Path | None, output: Path, reduced: bool, in_place: bool, check: bool | None,
    tile: str | None, inputs: Path | None, as_json: bool, **options: OptionValue,
) -> int:  # fmt: skip
    """Rewrite the ONNX file MODEL to follow SCHEDULE: operators in its order, and repeated where it recomputes.

    SCHEDULE is what `solve --output` wrote for the graph that `import onnx` made of MODEL; repeat the options of that
    import, and --in-place of `solve`, here. Without SCHEDULE, one within --budget is searched for, with multiply-adds
    as durations. Weights, inputs and outputs do not change. With --tile, operators are cut into several of their kind,
    each for a part of the output, with slices and concatenations of what they read.

    ONNX Runtime follows the order of a file only with the options in `moccasin_mzn.deploy.onnx_session`.

    A model is written only if it ran, unless there is no onnxruntime, or with --no-check. Exit status 1: there is no
    schedule within the budget; or outputs are not equal (with --tile, but for rounding), or the measured peak is above
    the planned one. Exit status 2: one of the models does not run. Then nothing is written.
    """
    from moccasin_mzn.api.tiling import Target
    from moccasin_mzn.deploy.onnx_deployment import OnnxCutter, deploy, read_sequence, read_source

    check_outputs({"--output": output}, files_read(options, model=model, schedule=schedule, inputs=inputs))
    if (schedule is None) == (options["budget"] is None):
        raise InputError("expected a schedule, or --budget to make one within it")
    check, unchecked = _is_checked(check, inputs)
    if options["budget"] is None:
        options["unknown_duration"] = "0"  # only a search asks
    how = onnx_import_in(options)
    search, seed = search_asked(options, others=("seed",), tile=tile), options["seed"] or 0
    source = read_source(model, how, reduced=reduced, in_place=in_place, folder=output.parent)
    sequence = None
    if search is None:
        assert schedule is not None
        sequence = read_sequence(schedule, source)
    former = _reference(source, how.merge_views, inputs, seed) if check else None  # before a search
    source = source if former is None else replace(source, doubtful=former.unlike())
    made = None
    if search is not None:
        cutter = OnnxCutter(source)
        made = schedule_of(source.graph, search, Target(cutter.cut))
        if made is None:
            return EXIT_NONE
        sequence = made.sequence
        source = source if tile is None else cutter.source_of(made.problem.graph)
    assert sequence is not None
    deployed = deploy(source, sequence)
    with located(model):
        found = former.compared(deployed.model, deployed.draws) if former is not None else None
    wrong = found is not None and (
        (found.equal is False and not (deployed.in_parts and found.is_rounded)) or found.peak > deployed.planned_values
    )
    if not wrong:
        _write(deployed, model, output)
    _print(deployed, unchecked, made, found, None if wrong else output, as_json)
    return EXIT_NONE if wrong else EXIT_FOUND


def _is_checked(check: bool | None, inputs: Path | None) -> tuple[bool, tuple[str, ...]]:
    """Return whether both models run, and what is to be reported if they do not though that was not asked for.

    Raises:
        InputError: ONNX Runtime is asked for, and missing; inputs are given, and there is no run.
    """
    from moccasin_mzn.graphs.importers.onnx.runtime import runtime

    if inputs is not None and check is False:
        raise InputError("--inputs is for --check")
    if check is False:
        return False, ()
    try:
        runtime("--check" if inputs is None else "--inputs")
    except InputError as error:
        if check or inputs is not None:
            raise
        return False, (f"the new model did not run: {error}",)
    return True, ()


def _reference(source: Source, shared_views: bool, inputs: Path | None, seed: int) -> Reference:
    """Run the model itself.

    Raises:
        InputError: it does not run, or takes inputs of a kind that is not made here.
    """
    from moccasin_mzn.deploy.onnx_comparing import reference_of

    try:
        with located(source.path):
            return reference_of(
                source.model, folder=source.path.parent, shared_views=shared_views, in_place=source.runs_in_place,
                inputs=inputs, seed=seed, apart=True,
            )  # fmt: skip
    except InputError as error:
        way = "give other inputs (--inputs), or write a model that did not run (--no-check)"
        raise InputError(
            str(error) if inputs is not None and str(inputs) in str(error) else f"{error}; {way}"
        ) from None


def _write(deployed: Deployment, model: Path, output: Path) -> None:
    from moccasin_mzn.base.files import replace_file
    from moccasin_mzn.deploy.onnx_deployment import file_of
    from moccasin_mzn.graphs.importers.onnx.file import versions
    from moccasin_mzn.graphs.provenance import ATTRIBUTE, made_by

    record = made_by(command_line(), versions(), source=source_of(model, output), peak=deployed.planned_peak)
    deployed.model.metadata_props.add(key=ATTRIBUTE, value=json.dumps(record))
    with located(model):
        data = file_of(deployed.model)
    replace_file(output, data)


def _print(
    deployed: Deployment, unchecked: tuple[str, ...], made: Result | None, found: Comparison | None,
    output: Path | None, as_json: bool,
) -> None:  # fmt: skip
    for note in (*deployed.notes, *unchecked):
        click.echo(f"note: {note}", err=True)
    if as_json:
        click.echo(json.dumps(_deployment_dict(deployed, unchecked, made, found)))
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
    elif deployed.folded and not found.equal and found.is_rounded:
        units = f"{found.rounding:.3g} units in the last place of the largest number"
        equal[False] += f", by {units}: constants are rounded otherwise once they are folded, see --fold none"
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


def _deployment_dict(
    deployed: Deployment, unchecked: tuple[str, ...], made: Result | None, found: Comparison | None
) -> JsonObject:
    """Return the same for JSON, without what was not searched for or not measured."""
    document = {
        "operators": deployed.nodes,
        "computations": deployed.computations,
        "planned_peak": deployed.planned_peak,
        "planned_values": deployed.planned_values,
        "former_peak": deployed.former_peak,
        "notes": [*deployed.notes, *unchecked],
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
