"""The command `plot`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from moccasin_mzn.cli.common import COUNT_FIXED, EXIT_FOUND, GRAPH, ORDER
from moccasin_mzn.cli.outputs import check_outputs
from moccasin_mzn.cli.strict import command
from moccasin_mzn.doc_links import Page
from moccasin_mzn.errors import InputError, located


@command()
@GRAPH
@click.argument("schedule", type=click.Path(path_type=Path))
@click.option("-o", "--output", type=click.Path(path_type=Path), metavar="FILE",
              help="The picture: .png, .svg or, interactive, .html. Default: print it as text on stdout.")  # fmt: skip
@click.option("--budget", metavar="0.8|80%|BYTES|1.5GiB", help="Default: the one the schedule says it was made for.")
@click.option("--by", default="event", show_default=True, metavar="event|stage",
              help="Horizontal axis: positions of the sequence, or stages.")  # fmt: skip
@ORDER
@COUNT_FIXED
def plot(
    graph: Path, schedule: Path, output: Path | None, budget: str | None, by: str, order: str, count_fixed: bool
) -> int:  # fmt: skip
    """Draw SCHEDULE of GRAPH: retention intervals, and memory before and after.

    SCHEDULE is a JSON list of node ids, or an object such as `solve --output` writes, of which only the sequence and
    the budget are used; or a plan for several memories, each of which gets a panel. It may exceed the budget. Files
    need more packages: pip install '.[plot]' in the checkout.
    """
    from moccasin_mzn.files import load_json
    from moccasin_mzn.graphs.formats import read_graph
    from moccasin_mzn.problem.files.plans import is_plan, read_plan
    from moccasin_mzn.problem.files.schedules import read_schedule
    from moccasin_mzn.problem.instance import Instance, chosen_order
    from moccasin_mzn.report.plots.files import write_picture
    from moccasin_mzn.report.plots.picture import AXES, Picture, check_axis
    from moccasin_mzn.report.plots.text import render

    check_outputs({"--plot": output}, {"the graph": graph, "the schedule": schedule, "the order": order})
    check_axis(by)
    if output is None and by != AXES[0]:
        raise InputError(f"--by {by} is for files: text counts events")
    computation_graph = read_graph(graph)
    positions, several = chosen_order(computation_graph, order), is_plan(load_json(schedule, Page.PLAN_FORMAT))
    if several and budget is not None:
        raise InputError("--budget: a plan is drawn with the budgets of its memories, which its file tells")
    claimed: Any = (read_plan if several else read_schedule)(schedule, computation_graph)
    amount = None if several else claimed.budget
    if budget is not None:
        amount = Instance.build(computation_graph, budget, order=positions, count_fixed=count_fixed).budget
    with located(schedule):
        if several:
            picture = Picture(claimed.platform, claimed.plan, positions, by)
        else:
            picture = Picture.of_schedule(computation_graph, claimed.sequence, positions, amount, by)
    if output is None:
        click.echo(render(picture), nl=False)
    else:
        write_picture(output, picture)
    return EXIT_FOUND
