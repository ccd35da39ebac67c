"""The command `deploy onnx`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from moccasin_mzn.cli.common import EXIT_FOUND, EXIT_NONE, IN_PLACE
from moccasin_mzn.cli.deploying import asked, files_read, output, schedule_of, searching
from moccasin_mzn.cli.importing import (
    DIMS,
    FOLD,
    OPTIMIZE,
    RESULTS,
    UNKNOWN_DURATION,
    UNKNOWN_SIZE,
    VIEWS,
    WORKSPACES,
    missing_of,
    source_of,
)
from moccasin_mzn.cli.making import command_line, integers
from moccasin_mzn.cli.outputs import check_outputs
from moccasin_mzn.cli.strict import command
from moccasin_mzn.errors import InputError

if TYPE_CHECKING:
    from moccasin_mzn.deploy.onnx_deployment import Deployment
    from moccasin_mzn.deploy.onnx_session import Comparison
    from moccasin_mzn.search.result import Result


@command()
@click.argument("model", type=click.Path(path_type=Path))
@click.argument("schedule", type=click.Path(path_type=Path), required=False)
@output("The new model.")
@DIMS
@VIEWS
@WORKSPACES
@RESULTS
@FOLD
@OPTIMIZE
@UNKNOWN_SIZE
@UNKNOWN_DURATION
@click.option("--reduced", is_flag=True,
              help="The schedule is for what `reduce` made of that graph: elementwise operators run in the memory of "
                   "what they read.")  # fmt: skip
@IN_PLACE
@click.option("--check", is_flag=True,
              help="Run both models in ONNX Runtime on random inputs, in one thread: are the outputs equal bit for "
                   "bit, is the order that of the schedule, and what are the peaks?")  # fmt: skip
@click.option("--inputs", type=click.Path(path_type=Path), metavar="FILE.npz",
              help="Of --check, arrays by names of inputs, in place of random ones.")  # fmt: skip
@searching(seed="Random seed of all searches, and of the inputs of --check.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def onnx(
    model: Path, schedule: Path | None, output: Path, dims: tuple[str, ...], views: str, workspaces: bool,
    keep_results: bool, fold: str, optimize: str, unknown_size: tuple[str, ...], unknown_duration: str, reduced: bool,
    in_place: bool, check: bool, inputs: Path | None, as_json: bool, **options: Any,
) -> int:  # fmt: skip
    """The ONNX file MODEL, rewritten to follow SCHEDULE: operators in its order, each as often as it is there.

    SCHEDULE is what `solve --output` wrote for the graph that `import onnx` made of MODEL, with the options of that
    import, and --in-place of `solve`, given again here. Without it a schedule within --budget is searched for; its
    durations are multiply-adds. Weights, inputs, outputs and all else stay.

    ONNX Runtime keeps to the order of a file if it is told so; `moccasin_mzn.deploy.onnx_session` has the options.

    Exit status 1: there is no schedule within the budget; or with --check, outputs are not equal, or the measured peak
    is above the planned one. Then nothing is written.
    """
    from moccasin_mzn.deploy.onnx_deployment import deploy, read_sequence, read_source
    from moccasin_mzn.deploy.onnx_session import compare
    from moccasin_mzn.errors import located
    from moccasin_mzn.graphs.importers.onnx.preparation import Fold, Optimize

    check_outputs({"--output": output}, files_read(options, model=model, schedule=schedule, inputs=inputs))
    if inputs is not None and not check:
        raise InputError("--inputs is for --check")
    if (schedule is None) == (options["budget"] is None):
        raise InputError("expected a schedule, or --budget to make one within it")
    ask, seed = asked(options, others=("seed",)), options["seed"] or 0
    source = read_source(
        model, dims=integers("--dim", dims), missing=missing_of(unknown_size, unknown_duration if ask else "0", None),
        merge_views=views == "shared", keep_results=keep_results, workspaces=workspaces, fold=Fold(fold),
        optimize=Optimize(optimize), reduced=reduced, in_place=in_place, folder=output.parent,
    )  # fmt: skip
    made = None
    if ask is None:
        assert schedule is not None
        sequence = read_sequence(schedule, source)
    else:
        made = schedule_of(source.graph, ask)
        if made is None:
            return EXIT_NONE
        sequence = made.sequence
    deployed = deploy(source, sequence)
    with located(model):
        found = compare(
            deployed.model, deployed.original, folder=model.parent, draws=deployed.draws,
            shared_views=views == "shared", in_place=source.runs_in_place, inputs=inputs, seed=seed,
        ) if check else None  # fmt: skip
    wrong = found is not None and (found.equal is False or found.peak > deployed.planned_values)
    if not wrong:
        _write(deployed, model, output)
    _tell(deployed, made, found, None if wrong else output, as_json)
    return EXIT_NONE if wrong else EXIT_FOUND


def _write(deployed: Deployment, model: Path, output: Path) -> None:
    from moccasin_mzn.deploy.onnx_deployment import file_of
    from moccasin_mzn.errors import located
    from moccasin_mzn.files import replace_file
    from moccasin_mzn.graphs.importers.onnx.file import versions
    from moccasin_mzn.graphs.provenance import ATTRIBUTE, made_by

    record = made_by(command_line(), versions(), source=source_of(model, output), peak=deployed.planned_peak)
    deployed.model.metadata_props.add(key=ATTRIBUTE, value=json.dumps(record))
    with located(model):
        data = file_of(deployed.model)
    replace_file(output, data)


def _tell(
    deployed: Deployment, made: Result | None, found: Comparison | None, output: Path | None, as_json: bool
) -> None:
    from moccasin_mzn.report.deployments import comparison_lines, deployment_dict, deployment_line, schedule_line

    for note in deployed.notes:
        click.echo(f"note: {note}", err=True)
    if as_json:
        click.echo(json.dumps(deployment_dict(deployed, made, found)))
        return
    if made is not None:
        click.echo(schedule_line(made))
    click.echo(f"{'not written' if output is None else output}: {deployment_line(deployed)}")
    for line in () if found is None else comparison_lines(deployed, found):
        click.echo(line)
