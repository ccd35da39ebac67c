"""One line of the table of best-known values, searched and certified anew; see `best_known`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from moccasin_mzn.api.solve import solve_instance
from moccasin_mzn.bench.best_known import (
    Generate,
    Known,
    better,
    file_name,
    graph_of,
    instance_of,
    merged,
    table_text,
    with_schedule,
)
from moccasin_mzn.bounds.certificates.document import certificate_text
from moccasin_mzn.files import load_json, replace_file
from moccasin_mzn.problem.judges.certificates import INFEASIBLE, check_certificate
from moccasin_mzn.search.certifying import certificate_of, trusted
from moccasin_mzn.search.options import Options
from moccasin_mzn.search.result import Result

CERTIFICATE = "certificate"
"""Who proved a bound that nobody has to be trusted for."""


def improve(
    rows: Sequence[Known], row: Known, table: Path, generate: Generate, options: Options,
    tell: Callable[[Result], None],
) -> list[Known]:  # fmt: skip
    """Search from the schedule that is known, certify, and write the file of the line and the table, each whole.

    Returns:
        The table, as it is written.

    Raises:
        InputError: what `graph_of` and `solve_instance` raise; what is found contradicts what is known.
    """
    graph = graph_of(row, table.parent, generate)
    instance = instance_of(row, graph)
    old = load_json(table.parent / row.file) if row.file else None
    known = None if old is None else old["schedule"]
    start = None if known is None else tuple(graph.position_of(node) for node in known)
    result = solve_instance(instance, options, warm_start=start)
    tell(result)
    new = certificate_of(result, options.time_limit)
    found = _found(replace(row, file=file_name(row)), result, new, graph)
    best = better(row, found)
    document = new if old is None or best.certified != row.certified else old
    for other in (old, new):
        document = document if other is None else with_schedule(document, other)
    document = {**document, "trusted": _trusted(best)}
    check_certificate(graph, document)
    path = table.parent / best.file
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_file(path, certificate_text(document))
    table_of = merged(rows, best)
    replace_file(table, table_text(table_of))
    return table_of


def _found(row: Known, result: Result, document: dict[str, Any], graph: Any) -> Known:
    """The line as this search alone would have it."""
    proven = check_certificate(graph, document)
    word = next(iter(trusted(result)), None)
    values: dict[str, Any] = {"certified": proven.bound, "certified_scope": proven.scope}
    if word is None or proven.bound is None or (word.bound is not None and word.bound <= proven.bound):
        values |= {"bound": proven.bound, "scope": proven.scope, "proved_by": CERTIFICATE}
    else:
        values |= {"bound": word.bound, "scope": word.scope, "proved_by": word.by}
    found_by = row.found_by if result.found_by == "the warm start" else result.found_by
    return replace(row, duration=proven.duration, found_by=found_by, **values)


def _trusted(row: Known) -> list[dict[str, Any]]:
    """What a certificate leaves to trust."""
    if row.bound == row.certified:
        return []
    return [{"by": row.proved_by, "scope": row.scope, "bound": INFEASIBLE if row.bound is None else row.bound}]
