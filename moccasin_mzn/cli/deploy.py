"""The commands `deploy ...`: plans for runtimes."""

from __future__ import annotations

from pathlib import Path

import click

from moccasin_mzn.base.doc_links import Page
from moccasin_mzn.base.errors import InputError
from moccasin_mzn.cli.common import EXIT_FOUND, EXIT_NONE, check_outputs
from moccasin_mzn.cli.deploy_c import c
from moccasin_mzn.cli.deploy_onnx import onnx
from moccasin_mzn.cli.deploy_options import (
    ALIGNMENT,
    EFFORT,
    files_read,
    output,
    schedule_of,
    search_asked,
    searching,
)
from moccasin_mzn.cli.deploy_tflite import tflite
from moccasin_mzn.cli.options import OptionValue, group


@group()
def deploy() -> None:
    """Write a plan as a file that a runtime executes: a model, or a C header; or a network as C."""


deploy.add_command(c)
deploy.add_command(onnx)
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
    from moccasin_mzn.base.files import replace_file
    from moccasin_mzn.base.formatting import count_text
    from moccasin_mzn.deploy.c_header import c_header as header_of
    from moccasin_mzn.deploy.source import placed, plan_in, planned, with_all_outputs
    from moccasin_mzn.graphs.formats import read_graph
    from moccasin_mzn.search.options import Effort

    effort = Effort(*(options[name] for name in EFFORT))
    check_outputs({"--output": output}, files_read(options, plan=plan))
    search = search_asked(options, alignment or 1, EFFORT)
    given = plan_in(plan)
    if given is not None and search is not None:
        raise InputError("--budget is for a graph: a plan has a budget of its own")
    if given is not None:
        found = placed(with_all_outputs(given), alignment, effort)
    elif search is None:
        message = f"{plan}: no plan for runtimes; of a graph one is made within --budget"
        raise InputError(Page.PLAN_FORMAT.after(message))
    else:
        result = schedule_of(read_graph(plan), search)
        if result is None:
            return EXIT_NONE
        found = planned(result)
    replace_file(output, header_of(found, prefix))
    arenas = zip(found.memories, found.arenas, strict=True)
    sizes = ", ".join(f"{name} {size:,}" for name, size in arenas)
    click.echo(f"{output}: {count_text(len(found.steps), 'step')}, {sizes} bytes")
    return EXIT_FOUND
