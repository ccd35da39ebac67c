"""The table of best-known values: for each instance the shortest schedule and the best bound known, and a certificate,
a file with the schedule and a proof that needs no trust in a solver.

An instance is a graph, a budget, an order and C. Nothing in the table is ever replaced by anything worse.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path

from moccasin_mzn.api.solve import solve_instance
from moccasin_mzn.base.errors import InputError, located, shown
from moccasin_mzn.base.files import JsonObject, load_json, load_text, replace_file
from moccasin_mzn.bench.columns import Row
from moccasin_mzn.bench.matrix import graph_digest
from moccasin_mzn.bounds.certificates.document import certificate_text
from moccasin_mzn.graphs.formats import read_graph
from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.graphs.wording import node_text
from moccasin_mzn.problem.instance import FREE, Instance
from moccasin_mzn.problem.judges.certificates import ANY_ORDER, INFEASIBLE, CertificateError, Proven, check_certificate
from moccasin_mzn.search.certifying import certificate_of, trusted
from moccasin_mzn.search.options import Options
from moccasin_mzn.search.result import Result

FOLDER = "best_known"
"""The folder of the certificates, in the folder of the table."""
GENERATE = "generate "
"""The first word of a graph that is generated; the arguments of `moccasin-mzn generate` follow."""
Generate = Callable[[Sequence[str]], ComputationGraph]


@dataclass(frozen=True)
class Known:
    """A line of the table: an instance, and what is known of it. Durations are in the graph's unit."""

    graph: str
    """The file of the graph, relative to the table's folder; or "generate" and its arguments."""
    digest: str
    """The digest of the graph, see `matrix.graph_digest`."""
    order: str
    """"input" or "free"."""
    max_computations: str
    """C, as `solve --max-computations` takes it."""
    budget: str
    """The budget, as `solve --budget` takes it."""
    amount: int
    """The budget in the graph's size unit."""
    once: int
    """The duration of every node computed once."""
    duration: int | None = None
    """The duration of the shortest schedule known; None: no schedule is known."""
    bound: int | None = None
    """No schedule is shorter; None: proven that there is no schedule."""
    scope: str = ""
    """The schedules that the bound is for, worded to follow "no schedule"; empty: all."""
    found_by: str = ""
    proved_by: str = ""
    certified: int | None = None
    """The bound that the certificate proves; None: it proves that there is no schedule."""
    certified_scope: str = ""
    file: str = ""
    """The certificate, with the schedule, relative to the table's folder."""

    @property
    def status(self) -> str:
        """The status as in `Result`: "optimal", "feasible", "infeasible" or "unknown"."""
        if self.bound is None:
            return "infeasible"
        return "unknown" if self.duration is None else "optimal" if self.bound == self.duration else "feasible"

    @property
    def instance(self) -> tuple[str, int, str, str]:
        """The key of the instance: digest, budget, order and C; no two lines have the same."""
        return self.digest, self.amount, self.order, self.max_computations

    @property
    def label(self) -> str:
        """The instance in a few words."""
        return f"{self.graph} {self.budget}, order {self.order}, C {self.max_computations}"

    @property
    def tdi_percent(self) -> float | None:
        """The total duration increase of the schedule."""
        return None if self.duration is None else 100 * (self.duration / self.once - 1) if self.once else 0.0

    @property
    def gap_percent(self) -> float | None:
        """100 * (duration - bound) / duration, as in `Result`; None without a schedule or with a proof of none."""
        if self.duration is None or self.bound is None:
            return None
        return 100 * (self.duration - self.bound) / self.duration if self.duration else 0.0

    @property
    def certified_percent(self) -> float | None:
        """The share of the bound's increase over every node once that the certificate proves, in percent."""
        if self.bound is None or self.certified is None:
            return 100.0 if self.bound == self.certified else 0.0
        return 100 * (self.certified - self.once) / (self.bound - self.once) if self.bound > self.once else 100.0

    def cells(self) -> dict[str, str]:
        """The line as texts, by column; derived figures are there for readers, and are checked when read."""
        own = {field.name: _text(getattr(self, field.name)) for field in fields(self)}
        own |= {name: "infeasible" for name in ("bound", "certified") if getattr(self, name) is None}
        derived = {"status": self.status, **{name: _text(getattr(self, name)) for name in _PERCENT}}
        return {name: (own | derived)[name] for name in COLUMNS}


_PERCENT = ("tdi_percent", "gap_percent", "certified_percent")
COLUMNS = (
    "graph", "digest", "order", "max_computations", "budget", "amount", "status", "once", "duration", "tdi_percent",
    "bound", "gap_percent", "scope", "found_by", "proved_by", "certified", "certified_percent",
    "certified_scope", "file",
)  # fmt: skip
_INTEGERS = ("amount", "once", "duration", "bound", "certified")


def _text(value: object) -> str:
    return "" if value is None else f"{value:.4f}" if isinstance(value, float) else str(value)


def table_text(rows: Iterable[Known]) -> str:
    """The table as CSV."""
    out = io.StringIO()
    table = csv.DictWriter(out, COLUMNS, lineterminator="\n")
    table.writeheader()
    table.writerows(row.cells() for row in rows)
    return out.getvalue()


def read_table(path: Path) -> list[Known]:
    """Read the lines of a table.

    Raises:
        InputError: the file cannot be read, is no table, or has a derived figure that contradicts the rest of its line.
    """
    text = load_text(path)
    with located(path):
        try:
            lines = list(csv.DictReader(io.StringIO(text, newline=""), strict=True))
        except csv.Error as error:
            raise InputError(f"no table: {error}") from None
        if not lines or tuple(lines[0]) != COLUMNS:
            raise InputError(f"no table of best-known values: expected a line below the columns {', '.join(COLUMNS)}")
        rows = []
        for number, cells in enumerate(lines, start=2):
            with located(f"line {number}"):
                rows.append(_known(cells))
        times = Counter(row.instance for row in rows)
        for row in rows:
            if times[row.instance] > 1:
                raise InputError(f"{row.label}: it is there twice")
    return rows


def _known(cells: dict[str, str]) -> Known:
    values: Row = {field.name: cells[field.name] for field in fields(Known)}
    if None in cells or None in cells.values():
        raise InputError(f"expected {len(COLUMNS)} fields")
    for name in _INTEGERS:
        if values[name] == {"bound": "infeasible", "certified": "infeasible", "duration": ""}.get(name):
            values[name] = None
        elif not re.fullmatch(r"[0-9]{1,60}", values[name]):
            raise InputError(f"{name} is {shown(values[name])}, expected an integer")
        else:
            values[name] = int(values[name])
    row = Known(**values)
    for name, expected in row.cells().items():
        if cells[name] != expected:
            raise InputError(f"{name} is {shown(cells[name])}, but by the rest of the line {shown(expected)}")
    return row


def graph_of(row: Known, folder: Path, generate: Generate) -> ComputationGraph:
    """Read or generate the graph of a line.

    Args:
        folder: the folder of the table.

    Raises:
        InputError: the graph cannot be read or generated, or has another digest now.
    """
    words = row.graph.removeprefix(GENERATE).split()
    graph = generate(words) if row.graph.startswith(GENERATE) else read_graph(folder / row.graph)
    if graph_digest(graph) != row.digest:
        raise InputError(f"{row.graph}: the graph is not that of the table")
    return graph


def instance_of(row: Known, graph: ComputationGraph) -> Instance:
    """Build the instance of a line."""
    counts = int(row.max_computations) if row.max_computations.isdecimal() else row.max_computations
    return Instance.build(graph, row.budget, order=row.order, max_computations=counts)


def new_line(label: str, graph: ComputationGraph, budget: str, order: str, counts: str) -> Known:
    """Make a line of an instance about which nothing is known yet.

    Args:
        label: the graph as the table has it, see `Known.graph`.
    """
    amount, once = Instance.build(graph, budget).budget, graph.total_duration
    return Known(label, graph_digest(graph), order, counts, budget, amount, once, bound=once, certified=once)


def better(row: Known, other: Known) -> Known:
    """Combine two lines of one instance: the better schedule, the better bound, the better certificate.

    Raises:
        InputError: one has a schedule that is shorter than the other's bound.
    """
    upper, lower = row, row
    if other.duration is not None and (row.duration is None or other.duration < row.duration):
        upper = other
    if _is_higher(other.bound, row.bound):
        lower = other
    proof = other if not row.file or _is_higher(other.certified, row.certified) else row
    if upper.duration is not None and (lower.bound is None or lower.bound > upper.duration):
        bound = "that there is none" if lower.bound is None else f"a bound of {lower.bound}"
        raise InputError(f"{row.label}: a schedule of {upper.duration} contradicts {bound}, by {lower.proved_by}")
    return replace(
        row, duration=upper.duration, found_by=upper.found_by,
        bound=lower.bound, scope=lower.scope, proved_by=lower.proved_by, certified=proof.certified,
        certified_scope=proof.certified_scope, file=proof.file,
    )  # fmt: skip


def _is_higher(one: int | None, other: int | None) -> bool:
    """True if the first bound is higher than the other; None: proven that there is no schedule, the highest."""
    return other is not None and (one is None or one > other)


def merged(rows: Sequence[Known], new: Known) -> list[Known]:
    """Add a line to the table: it improves that of its instance, or is the first of it."""
    at = next((k for k, row in enumerate(rows) if row.instance == new.instance), None)
    if at is None:
        return [*rows, new]
    return [*rows[:at], better(rows[at], new), *rows[at + 1 :]]


def file_name(row: Known) -> str:
    """The file name for a line's certificate, relative to the table's folder."""
    words = f"{Path(row.graph).stem}-{row.budget}-{row.order}-{row.max_computations}"
    return f"{FOLDER}/{re.sub(r'[^A-Za-z0-9._-]+', '-', words.removeprefix(GENERATE))}.json.gz"


def checked(row: Known, folder: Path, generate: Generate) -> Proven:
    """Check a line: its schedule by the judge, its certificate by the checker, and both against the line.

    Raises:
        InputError: one of these checks fails.
    """
    graph = graph_of(row, folder, generate)
    instance = instance_of(row, graph)
    with located(row.label):
        if (instance.budget, graph.total_duration) != (row.amount, row.once):
            raise InputError(f"the budget is {instance.budget}, every node once takes {graph.total_duration}")
        document = load_json(folder / row.file)
        try:
            proven = check_certificate(graph, document)
        except CertificateError as error:
            raise InputError(f"{row.file}: {error}") from None
        for flaw in (*_differences(row, proven), *_flaws(row, instance, document)):
            raise InputError(f"{row.file}: {flaw}")
    return proven


def _differences(row: Known, proven: Proven) -> Iterator[str]:
    """Yield how a line and its certificate differ, in a phrase each."""
    claimed = {"budget": row.amount, "duration": row.duration, "bound": row.certified, "scope": row.certified_scope}
    for name, value in claimed.items():
        if getattr(proven, name) != value:
            yield f"{name} is {getattr(proven, name)}, but {value} in the table"
    if row.order == FREE and proven.scope != ANY_ORDER:
        yield f"the proof is for {proven.scope}"
    if row.bound is not None and row.certified is None:
        yield f"it proves that there is no schedule, but the bound is {row.bound}"
    if row.bound is not None and row.certified is not None and row.certified > row.bound:
        yield f"it proves {row.certified}, more than the bound of {row.bound}"


def _flaws(row: Known, instance: Instance, document: JsonObject) -> Iterator[str]:
    """Yield what is wrong with the certificate's schedule, by the judge."""
    if document["schedule"] is None:
        return
    sequence = [instance.graph.position_of(node) for node in document["schedule"]]
    simulation = instance.judge(sequence)
    yield from (violation.message for violation in simulation.violations)
    if simulation.duration != row.duration:
        yield f"the schedule takes {simulation.duration}, not {row.duration}"
    if row.order != FREE and tuple(dict.fromkeys(sequence)) != instance.order:
        yield "first computations are not in the input order"
    for v, most in enumerate(instance.max_computations):
        if sequence.count(v) > most:
            yield f"{node_text(instance.graph, v)} is computed {sequence.count(v)} times"


def with_schedule(document: JsonObject, other: JsonObject) -> JsonObject:
    """Return a certificate with the schedule of another one of the same instance, if that is shorter."""
    if other["duration"] is None or (document["duration"] is not None and document["duration"] <= other["duration"]):
        return document
    return {**document, "schedule": other["schedule"], "duration": other["duration"]}


def summary(rows: Sequence[Known]) -> str:
    """Count the lines, and those that are proven and certified, as JSON."""
    proven = [row for row in rows if row.status in ("optimal", "infeasible")]
    whole = [row for row in proven if row.certified == row.bound]
    partly = [row for row in rows if row not in whole and (row.certified or 0) > row.once]
    return json.dumps({"rows": len(rows), "proven": len(proven), "certified": len(whole), "partly": len(partly)})


# --- Improving a line: search from the schedule that is known, and certify ------------------------------------


CERTIFICATE = "certificate"
"""The value of `Known.proved_by` where the certificate proves the whole bound."""


def improve(
    rows: Sequence[Known], row: Known, table: Path, generate: Generate, options: Options,
    on_result: Callable[[Result], None],
) -> list[Known]:  # fmt: skip
    """Search from the schedule that is known, certify, and replace the line's certificate and the table.

    Args:
        on_result: called with the result of the search.

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
    on_result(result)
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


def _found(row: Known, result: Result, document: JsonObject, graph: ComputationGraph) -> Known:
    """Make the line that this search and its certificate give, without what was known before."""
    proven = check_certificate(graph, document)
    word = next(iter(trusted(result)), None)
    values: Row = {"certified": proven.bound, "certified_scope": proven.scope}
    if word is None or proven.bound is None or (word.bound is not None and word.bound <= proven.bound):
        values |= {"bound": proven.bound, "scope": proven.scope, "proved_by": CERTIFICATE}
    else:
        values |= {"bound": word.bound, "scope": word.scope, "proved_by": word.by}
    found_by = row.found_by if result.found_by == "the warm start" else result.found_by
    return replace(row, duration=proven.duration, found_by=found_by, **values)


def _trusted(row: Known) -> list[JsonObject]:
    """List the bounds that a certificate does not prove, with who did."""
    if row.bound == row.certified:
        return []
    return [{"by": row.proved_by, "scope": row.scope, "bound": INFEASIBLE if row.bound is None else row.bound}]
