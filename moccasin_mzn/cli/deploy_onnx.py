"""The command `deploy onnx`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from moccasin_mzn.cli.common import EXIT_FOUND, EXIT_NONE
from moccasin_mzn.cli.importing import DIMS, RESULTS, UNKNOWN_SIZE, VIEWS, WORKSPACES, missing_of, source_of
from moccasin_mzn.cli.making import command_line, integers
from moccasin_mzn.cli.outputs import check_outputs
from moccasin_mzn.cli.strict import command

if TYPE_CHECKING:
    from moccasin_mzn.deploy.onnx_deployment import Deployment
    from moccasin_mzn.deploy.onnx_session import Comparison


@command()
@click.argument("model", type=click.Path(path_type=Path))
@click.argument("schedule", type=click.Path(path_type=Path))
@click.option("-o", "--output", required=True, type=click.Path(path_type=Path), metavar="FILE", help="The new model.")
@DIMS
@VIEWS
@WORKSPACES
@RESULTS
@UNKNOWN_SIZE
@click.option("--reduced", is_flag=True,
              help="The schedule is for what `reduce` made of that graph: elementwise operators run in the memory of "
                   "what they read.")  # fmt: skip
@click.option("--check", is_flag=True,
              help="Run both models in ONNX Runtime on random inputs, in one thread: are the outputs equal bit for "
                   "bit, is the order that of the schedule, and what are the peaks?")  # fmt: skip
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, metavar="N", help="Of these inputs.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def onnx(
    model: Path, schedule: Path, output: Path, dims: tuple[str, ...], views: str, workspaces: bool, keep_results: bool,
    unknown_size: str, reduced: bool, check: bool, seed: int, as_json: bool,
) -> int:  # fmt: skip
    """The ONNX file MODEL, rewritten to follow SCHEDULE: operators in its order, each as often as it is there.

    SCHEDULE is what `solve --output` wrote for the graph that `import onnx` made of MODEL, with the options of that
    import given again here. Weights, inputs, outputs and all else stay.

    ONNX Runtime keeps to the order of a file if it is told so; `moccasin_mzn.deploy.onnx_session` has the options.

    Exit status 1: with --check, outputs are not equal; then nothing is written.
    """
    from moccasin_mzn.deploy.onnx_deployment import deploy, file_of
    from moccasin_mzn.deploy.onnx_session import compare
    from moccasin_mzn.errors import located
    from moccasin_mzn.files import replace_file
    from moccasin_mzn.graphs.importers.onnx_file import versions
    from moccasin_mzn.graphs.provenance import ATTRIBUTE, made_by

    check_outputs({"--output": output}, {"the model": model, "the schedule": schedule})
    deployed = deploy(
        model, schedule, dims=integers("--dim", dims), missing=missing_of(unknown_size, "0", None),
        merge_views=views == "shared", keep_results=keep_results, workspaces=workspaces, reduced=reduced,
        folder=output.parent,
    )  # fmt: skip
    with located(model):
        found = compare(
            deployed.model, deployed.original, draws=deployed.draws, shared_views=views == "shared", seed=seed
        ) if check else None  # fmt: skip
    wrong = found is not None and found.equal is False
    if not wrong:
        record = made_by(command_line(), versions(), source=source_of(model, output), peak=deployed.planned_peak)
        deployed.model.metadata_props.add(key=ATTRIBUTE, value=json.dumps(record))
        with located(model):
            data = file_of(deployed.model)
        replace_file(output, data)
    _tell(deployed, found, None if wrong else output, as_json)
    return EXIT_NONE if wrong else EXIT_FOUND


def _tell(deployed: Deployment, found: Comparison | None, output: Path | None, as_json: bool) -> None:
    from moccasin_mzn.report.deployments import comparison_lines, deployment_dict, deployment_line

    if deployed.note is not None:
        click.echo(f"note: {deployed.note}", err=True)
    if as_json:
        click.echo(json.dumps(deployment_dict(deployed, found)))
    else:
        click.echo(f"{'not written' if output is None else output}: {deployment_line(deployed)}")
        for line in () if found is None else comparison_lines(deployed, found):
            click.echo(line)
