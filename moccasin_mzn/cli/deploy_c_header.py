"""The command `deploy c-header`."""

from __future__ import annotations

from pathlib import Path

import click

from moccasin_mzn.cli.common import EXIT_FOUND
from moccasin_mzn.cli.deploying import PLAN, PLANNING, output
from moccasin_mzn.cli.outputs import check_outputs
from moccasin_mzn.cli.strict import command


@command(name="c-header")
@PLAN
@output("The header.")
@click.option("--prefix", default="plan", show_default=True, metavar="NAME", help="Of all names in it.")
@PLANNING
def c_header(
    plan: Path, output: Path, prefix: str, budget: str | None, alignment: int | None, time_limit: float | None,
    threads: int | None, seed: int | None,
) -> int:  # fmt: skip
    """Write PLAN as a header of C99 and C++: offsets, sizes, reads of each step as constant arrays.

    PLAN is what `solve --output` writes; offsets that it has not are searched for. Or a graph, with --budget: then a
    schedule is searched for too. An example that carries it out is data/run_plan.c.
    """
    from moccasin_mzn.deploy.c_header import c_header as header_of
    from moccasin_mzn.deploy.source import plan_to_deploy
    from moccasin_mzn.files import replace_file
    from moccasin_mzn.search.options import Effort
    from moccasin_mzn.words import count_text

    effort = Effort(time_limit, threads, seed)
    check_outputs({"--output": output}, {"the plan": plan})
    found = plan_to_deploy(plan, budget, alignment, effort)
    replace_file(output, header_of(found, prefix))
    arenas = zip(found.memories, found.arenas, strict=True)
    sizes = ", ".join(f"{name} {size:,}" for name, size in arenas)
    click.echo(f"{output}: {count_text(len(found.steps), 'step')}, {sizes} bytes")
    return EXIT_FOUND
