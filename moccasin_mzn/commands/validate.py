"""The command `validate`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from moccasin_mzn.commands.common import COUNT_FIXED, EXIT_FOUND, EXIT_NONE, GRAPH, ORDER
from moccasin_mzn.errors import InputError

if TYPE_CHECKING:
    from moccasin_mzn.platforms.documents import ClaimedPlan


@click.command()
@GRAPH
@click.argument("schedule", type=click.Path(path_type=Path))
@click.option("--budget", metavar="0.8|80%|BYTES|1.5GiB", help="Default: the one the schedule says it was made for.")
@ORDER
@COUNT_FIXED
def validate(graph: Path, schedule: Path, budget: str | None, order: str, count_fixed: bool) -> int:
    """Judge SCHEDULE of GRAPH, wherever it was made: exit status 0 if it is valid, else 1 and the first violation.

    SCHEDULE is a JSON list of node ids, or an object such as `solve --output` writes; a plan for several memories is
    judged by the platform in its file. --order matters only for a budget given as a fraction.
    """
    from moccasin_mzn.instance import Instance
    from moccasin_mzn.platforms.documents import is_plan, read_plan
    from moccasin_mzn.readers import read_graph, read_schedule
    from moccasin_mzn.readers.jsonfile import load_json
    from moccasin_mzn.simulate import simulate
    from moccasin_mzn.validate import validate_schedule

    computation_graph = read_graph(graph)
    if is_plan(load_json(schedule)):
        return _validate_plan(read_plan(schedule, computation_graph), budget)
    claimed = read_schedule(schedule, computation_graph)
    amount = claimed.budget
    if budget is not None:
        amount = Instance.build(computation_graph, budget, order=order, count_fixed=count_fixed).budget
    violations = validate_schedule(computation_graph, claimed, amount)
    if violations:
        click.echo(f"invalid: {violations[0].message}")
        if len(violations) > 1:
            click.echo(f"({len(violations) - 1} more violations follow)")
        return EXIT_NONE
    simulation = simulate(computation_graph, claimed.sequence)
    within = "no budget" if amount is None else f"budget {amount}"
    click.echo(f"valid: peak {simulation.peak}, duration {simulation.duration}, {within}")
    return EXIT_FOUND


def _validate_plan(claimed: ClaimedPlan, budget: str | None) -> int:
    from moccasin_mzn.platforms.validate import validate_plan

    if budget is not None:
        raise InputError("--budget: a plan is judged by the budgets of its memories, which its file tells")
    simulation = validate_plan(claimed)
    violations = simulation.violations
    if violations:
        click.echo(f"invalid: {violations[0].message}")
        if len(violations) > 1:
            click.echo(f"({len(violations) - 1} more violations follow)")
        return EXIT_NONE
    names = [memory.name for memory in claimed.platform.memories]
    peaks = ", ".join(f"peak in {name} {peak}" for name, peak in zip(names, simulation.peaks, strict=True))
    totals = f"duration {simulation.duration}, energy {simulation.energy}, traffic {simulation.traffic}"
    click.echo(f"valid: {peaks}, {totals}")
    return EXIT_FOUND
