"""The command `compare`."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click

from moccasin_mzn.cli.common import COUNT_FIXED, EXIT_FOUND
from moccasin_mzn.cli.strict import command
from moccasin_mzn.cli.typed import added, effort, typed
from moccasin_mzn.terminal import is_read, stopped_by_signals


@command()
@click.argument("graphs", type=click.Path(path_type=Path), nargs=-1, required=True, metavar="GRAPH...")
@click.option("--budget", "budgets", multiple=True, required=True, metavar="0.8|80%|BYTES|1.5GiB",
              help="Most memory, as for solve; may be given several times.")  # fmt: skip
@COUNT_FIXED
@click.option("--only", multiple=True, metavar="PATTERN",
              help='Only these, such as `chen-*`; may be given several times.')  # fmt: skip
@click.option("--model", "models", multiple=True, metavar="FILE.mzn",
              help="A model of one's own as well; may be given several times.")  # fmt: skip
@added(*typed("like"))
@effort("For each of them.", time_limit=60.0)
@click.option("--warm-start", is_flag=True, help="Let models that run alone start from the best schedule found before.")
@click.option("--published", type=click.Path(path_type=Path), metavar="FILE", help="CSV of published figures to print.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object a line on stdout.")
def compare(
    graphs: tuple[Path, ...], budgets: tuple[str, ...], count_fixed: bool, only: tuple[str, ...],
    models: tuple[str, ...], like: str | None, time_limit: float, threads: int | None, seed: int | None,
    warm_start: bool, published: Path | None, as_json: bool,
) -> int:  # fmt: skip
    """Run all formulations and strategies on each GRAPH and budget, and print their figures side by side."""
    from moccasin_mzn.bench.compare import ComparisonTable, ContenderOptions, contenders
    from moccasin_mzn.bench.compare import compare as run_all
    from moccasin_mzn.bench.published import read_published
    from moccasin_mzn.checks import check_time_limit
    from moccasin_mzn.graphs.formats import read_graph
    from moccasin_mzn.problem.budget import Budget

    check_time_limit(time_limit)
    for budget in budgets:
        Budget.parse(budget)
    chosen = contenders(only, models, like)
    lines = read_published(published) if published is not None else ()
    read = {path: read_graph(path) for path in graphs}
    effort = ContenderOptions(time_limit, threads, seed, warm_start)
    with stopped_by_signals():
        for path in graphs:
            for budget in budgets:
                table = ComparisonTable(sys.stdout, with_published=bool(lines))
                for row in run_all(path.stem, read[path], budget, chosen, effort, lines, count_fixed):
                    if as_json:
                        click.echo(json.dumps(row.as_dict()))
                    else:
                        table.add(row)
                    if not is_read() or (row.result is not None and row.result.interrupted):
                        table.end()
                        return EXIT_FOUND
                table.end()
    return EXIT_FOUND
