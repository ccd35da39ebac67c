"""The command `deploy tflite`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from moccasin_mzn.cli.common import EXIT_FOUND, EXIT_NONE
from moccasin_mzn.cli.deploying import ALIGNMENT, EFFORT, asked, files_read, output, schedule_of, searching
from moccasin_mzn.cli.outputs import check_outputs
from moccasin_mzn.cli.strict import command
from moccasin_mzn.errors import InputError


@command()
@click.argument("model", type=click.Path(path_type=Path))
@click.argument("plan", type=click.Path(path_type=Path), required=False)
@output("The new model.")
@ALIGNMENT
@searching(default="60, for offsets alone 10")
def tflite(model: Path, plan: Path | None, output: Path, alignment: int | None, **options: Any) -> int:
    """Write the TFLite MODEL with its operators in the order of PLAN, and with PLAN's offsets for TFLite Micro.

    PLAN is what `solve --output` writes for the graph that `import tflite` makes of MODEL; without it a plan is
    searched for whose arena is within --budget. Offsets are searched for where the plan has none that are multiples of
    16.

    Exit status 1: there is no schedule within the budget.
    """
    from moccasin_mzn.deploy.source import placed, planned
    from moccasin_mzn.deploy.tflite_model import planned_model
    from moccasin_mzn.files import replace_file
    from moccasin_mzn.formatting import count_text
    from moccasin_mzn.graphs.importers.tflite import ALIGNMENT as LEAST
    from moccasin_mzn.graphs.importers.tflite import graph_of, read_model
    from moccasin_mzn.problem.files.plan_format import read_runtime_plan
    from moccasin_mzn.search.options import Effort

    effort, step = Effort(*(options[name] for name in EFFORT)), alignment or LEAST
    check_outputs({"--output": output}, files_read(options, model=model, plan=plan))
    if (plan is None) == (options["budget"] is None):
        raise InputError("expected a plan, or --budget to make one within it")
    if step % LEAST:
        raise InputError(f"--alignment {step}: TFLite Micro wants multiples of {LEAST}")
    ask = asked(options, step, EFFORT)
    network = read_model(model)
    graph = graph_of(network, model.stem)
    if ask is None:
        assert plan is not None
        found = placed(read_runtime_plan(plan, graph), step, effort)
    else:
        result = schedule_of(graph, ask)
        if result is None:
            return EXIT_NONE
        found = planned(result)
    replace_file(output, planned_model(network, found))
    again = count_text(len(found.steps) - len(graph.nodes), "operator")
    click.echo(f"{output}: arena {found.arenas[0]:,} bytes, {again} computed again")
    return EXIT_FOUND
