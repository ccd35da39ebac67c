"""The command `deploy c-header`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from moccasin_mzn.cli.common import EXIT_FOUND, EXIT_NONE
from moccasin_mzn.cli.deploying import ALIGNMENT, EFFORT, asked, files_read, output, schedule_of, searching
from moccasin_mzn.cli.outputs import check_outputs
from moccasin_mzn.cli.strict import command
from moccasin_mzn.doc_links import Page
from moccasin_mzn.errors import InputError


@command(name="c-header")
@click.argument("plan", type=click.Path(path_type=Path))
@output("The header.")
@click.option("--prefix", default="plan", show_default=True, metavar="NAME", help="Of all names in it.")
@ALIGNMENT
@searching(default="60, for offsets alone 10")
def c_header(plan: Path, output: Path, prefix: str, alignment: int | None, **options: Any) -> int:
    """Write PLAN as a header of C99 and C++: offsets, sizes, reads of each step as constant arrays.

    PLAN is what `solve --output` writes; offsets that it has not are searched for. Or a graph, with --budget, which is
    for the arena: then a schedule is searched for too. An example that carries it out is data/run_plan.c.

    Exit status 1: there is no schedule within the budget.
    """
    from moccasin_mzn.deploy.c_header import c_header as header_of
    from moccasin_mzn.deploy.source import placed, plan_in, planned
    from moccasin_mzn.files import replace_file
    from moccasin_mzn.formatting import count_text
    from moccasin_mzn.graphs.formats import read_graph
    from moccasin_mzn.search.options import Effort

    effort = Effort(*(options[name] for name in EFFORT))
    check_outputs({"--output": output}, files_read(options, plan=plan))
    ask = asked(options, alignment or 1, EFFORT)
    given = plan_in(plan)
    if given is not None and ask is not None:
        raise InputError("--budget is for a graph: a plan has a budget of its own")
    if given is not None:
        found = placed(given, alignment, effort)
    elif ask is None:
        told = f"{plan}: no plan for runtimes; of a graph one is made within --budget"
        raise InputError(Page.PLAN_FORMAT.after(told))
    else:
        result = schedule_of(read_graph(plan), ask)
        if result is None:
            return EXIT_NONE
        found = planned(result)
    replace_file(output, header_of(found, prefix))
    arenas = zip(found.memories, found.arenas, strict=True)
    sizes = ", ".join(f"{name} {size:,}" for name, size in arenas)
    click.echo(f"{output}: {count_text(len(found.steps), 'step')}, {sizes} bytes")
    return EXIT_FOUND
