"""The command `deploy tflite`."""

from __future__ import annotations

from pathlib import Path

import click

from moccasin_mzn.cli.common import EXIT_FOUND
from moccasin_mzn.cli.deploying import PLANNING, output
from moccasin_mzn.cli.outputs import check_outputs
from moccasin_mzn.cli.strict import command
from moccasin_mzn.errors import InputError


@command()
@click.argument("model", type=click.Path(path_type=Path))
@click.argument("plan", type=click.Path(path_type=Path), required=False)
@output("The new model.")
@PLANNING
def tflite(
    model: Path, plan: Path | None, output: Path, budget: str | None, alignment: int | None,
    time_limit: float | None, threads: int | None, seed: int | None,
) -> int:  # fmt: skip
    """Write the TFLite MODEL with its operators in the order of PLAN, and with PLAN's offsets for TFLite Micro.

    PLAN is what `solve --output` writes for the graph that `import tflite` makes of MODEL; without it a plan within
    --budget is searched for. Offsets are searched for where the plan has none that are multiples of 16.
    """
    from moccasin_mzn.deploy.source import plan_to_deploy, planned
    from moccasin_mzn.deploy.tflite_model import planned_model
    from moccasin_mzn.files import replace_file
    from moccasin_mzn.graphs.importers.tflite_model import ALIGNMENT, graph_of, read_model
    from moccasin_mzn.search.options import Effort
    from moccasin_mzn.words import count_text

    effort, step = Effort(time_limit, threads, seed), alignment or ALIGNMENT
    check_outputs({"--output": output}, {"the model": model, "the plan": plan})
    if (plan is None) == (budget is None):
        raise InputError("expected a plan, or --budget to make one within it")
    if step % ALIGNMENT:
        raise InputError(f"--alignment {step}: TFLite Micro wants multiples of {ALIGNMENT}")
    network = read_model(model)
    graph = graph_of(network, model.stem)
    if plan is None:
        assert budget is not None
        found = planned(graph, budget, step, effort)
    else:
        found = plan_to_deploy(plan, None, step, effort, graph)
    replace_file(output, planned_model(network, found))
    again = count_text(len(found.steps) - len(graph.nodes), "operator")
    click.echo(f"{output}: arena {found.arenas[0]:,} bytes, {again} computed again")
    return EXIT_FOUND
