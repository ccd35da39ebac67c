"""Comparison of all formulations and strategies on one instance, with published figures."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import TextIO

from moccasin_mzn.api.published import Published, line_for
from moccasin_mzn.api.solve import solve_instance
from moccasin_mzn.base.clock import never
from moccasin_mzn.base.errors import InputError, NotApplicableError, shown
from moccasin_mzn.base.files import JsonObject
from moccasin_mzn.base.formatting import count_text, memory_text, nearest
from moccasin_mzn.base.option import options_of
from moccasin_mzn.formulations import formulations
from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.problem.budget import Budget
from moccasin_mzn.problem.instance import Instance
from moccasin_mzn.search.apply_strategy import apply
from moccasin_mzn.search.call import Call
from moccasin_mzn.search.options import Effort, Options, own_models
from moccasin_mzn.search.result import Result
from moccasin_mzn.strategies import find_strategy, strategies


@dataclass(frozen=True)
class Contender:
    """A formulation with its options, or a strategy."""

    label: str
    family: str
    """The family of the published figures to show: "moccasin", "checkmate", "rounding"; empty: there are none."""
    options: JsonObject = field(default_factory=dict)
    """Options of the model; empty for a strategy, whose name is the label."""
    max_computations: int | str | None = None


def contenders(only: Sequence[str] = (), models: Sequence[str] = (), like: str | None = None) -> tuple[Contender, ...]:
    """List all contenders, or those whose labels match one of the patterns, with * and ?.

    Args:
        models: files of the user's own models.
        like: the formulation whose data and solutions these have; None: staged.

    Raises:
        InputError: a pattern matches no label; a model cannot be read.
    """
    found = [
        Contender(
            f"{form.name} {variant.label}".rstrip(), form.family, {"formulation": form.name, **variant.options},
            variant.max_computations,
        )
        for form in formulations()
        for variant in form.variants
    ]  # fmt: skip
    found += [Contender(form.called, "", options) for options, form in own_models(models, like)]
    found += [Contender(rule.name, rule.family) for rule in strategies()]
    labels = [contender.label for contender in found]
    for pattern in only:
        if not any(fnmatchcase(label, pattern) for label in labels):
            raise InputError(f"{shown(pattern)} matches none of {', '.join(labels)}{nearest(pattern, labels)}")
    return tuple(one for one in found if not only or any(fnmatchcase(one.label, pattern) for pattern in only))


@dataclass(frozen=True)
class Row:
    """The result of one contender on one instance."""

    graph: str
    budget: str
    """The budget as the user gave it."""
    instance: Instance
    contender: Contender
    result: Result | None
    """The result; None if the contender does not apply, or failed."""
    note: str
    """The reason for the status, in one line."""
    published: tuple[str, str, str] = ("", "", "")
    """TDI in percent, peak and seconds as printed in the paper; empty where it has none."""

    def as_dict(self) -> JsonObject:
        """Return the object that `compare --json` prints for the row."""
        result = self.result
        return {
            "graph": self.graph,
            "budget": self.budget,
            "budget_amount": self.instance.budget,
            "contender": self.contender.label,
            "status": result.status if result else "none",
            "note": self.note,
            "valid": result.valid if result else False,
            **{name: getattr(result, name, None) for name in ("duration", "tdi_percent", "gap_percent", "peak")},
            "seconds": round(result.seconds.total, 3) if result else None,
            "published": dict(zip(("tdi_percent", "peak", "seconds"), self.published, strict=True)),
        }


@dataclass(frozen=True)
class ContenderOptions(Effort):
    """The effort of each contender, and where models start."""

    warm: bool = False
    """True: a model starts from the best schedule of former contenders that is a solution of it."""
    until_gap: float = 0.0
    """Models stop at this gap."""


def compare(
    name: str, graph: ComputationGraph, budget: str, chosen: Sequence[Contender], effort: ContenderOptions,
    published: Sequence[Published] = (), count_fixed: bool = False, stop: Callable[[], bool] = never,
) -> Iterator[Row]:  # fmt: skip
    """Run the contenders on a graph within a budget, in their order, and yield a row for each as soon as it is done.

    Ends early when the user interrupts one of them, or when `stop()` is true, which each of them asks.

    Raises:
        InputError: the budget is nonsense.
    """
    baseline = Instance.build(graph, Budget.parse(budget), count_fixed=count_fixed)
    line = line_for(len(graph.nodes), len(graph.edges), baseline.budget, published)
    known: list[tuple[int, ...]] = []
    for contender in chosen:
        if stop():
            return
        result, note = _run(contender, baseline, effort, known if effort.warm else (), stop)
        figures = line.figures.get(contender.family) if line else None
        title = line.label if line else name
        yield Row(title, budget, baseline, contender, result, note, figures or ("", "", ""))
        if result is not None:
            if result.valid and result.sequence is not None:
                known.append(result.sequence)
            if result.interrupted:
                return


def _run(
    contender: Contender, baseline: Instance, effort: ContenderOptions, known: Sequence[tuple[int, ...]],
    stop: Callable[[], bool],
) -> tuple[Result | None, str]:  # fmt: skip
    """Run one contender and return its result and note; `known` has schedules that a model may start from."""
    graph, budget, order = baseline.graph, baseline.budget, baseline.order
    try:
        if not contender.options:
            instance = Instance.build(graph, budget, order=order, max_computations="unlimited")
            result = apply(instance, find_strategy(contender.label), effort.time_limit, Call(stop=stop))
            return result, result.reason
        limits = {"until_gap": effort.until_gap, **{name: getattr(effort, name) for name in options_of(Effort)}}
        options = Options.of({**contender.options, **limits})
        most = options.default_computations(contender.max_computations)
        instance = Instance.build(graph, budget, order=order, max_computations=most)
        alone = options.search == "off" and not options.two_phase
        start = _shortest_usable(instance, options, known) if alone else None
        result = solve_instance(instance, options, Call(stop=stop), start)
        return result, result.reason
    except NotApplicableError as error:
        return None, f"does not apply: {error}"
    except InputError as error:  # of this contender's solver: the others go on
        return None, f"failed: {error}"


def _shortest_usable(instance: Instance, options: Options, known: Sequence[tuple[int, ...]]) -> tuple[int, ...] | None:
    """Return the shortest schedule that is a solution of the formulation."""
    durations = instance.graph.durations
    for sequence in sorted(known, key=lambda sequence: sum(durations[v] for v in sequence)):
        try:
            options.form.check_start(instance, sequence)
        except InputError:
            continue
        return sequence
    return None


# --- The table: Markdown that grows while the contenders run --------------------------------------------------


_WIDTHS = {"contender": 34, "status": 12}
"""Widths in characters of columns whose texts are longer than their heading."""


class ComparisonTable:
    """Prints a heading with the first row; notes of those that do not apply come below the last."""

    def __init__(self, out: TextIO, with_published: bool) -> None:
        self._out = out
        self._with_published = with_published
        self._begun = False
        self._notes: list[str] = []

    def add(self, row: Row) -> None:
        """Print a row."""
        cells = self._cells(row)
        if not self._begun:
            self._begin(row, [heading for heading, _ in cells])
        if row.result is None:
            self._notes.append(f"{row.contender.label}: {row.note}")
        self._line(cells)

    def _cells(self, row: Row) -> list[tuple[str, str]]:
        """Return heading and text of each cell."""
        result, budget = row.result, row.instance.budget
        answer = result if result is not None and result.found else None
        model = result if result is not None and result.formulation is not None else None
        cells = [
            ("contender", row.contender.label),
            ("status", result.status if result else "-"),
            ("TDI %", f"{answer.tdi_percent:.3f}" if answer else "-"),
            ("peak / budget", f"{answer.peak / budget:.3f}" if answer and budget else "-"),
            ("gap %", f"{model.gap_percent:.2f}" if model and model.gap_percent is not None else "-"),
            ("s", f"{result.seconds.total:.1f}" if result else "-"),
        ]
        published = zip(("paper: TDI %", "peak", "s"), row.published, strict=True)
        return [*cells, *published] if self._with_published else cells

    def end(self) -> None:
        """Print the notes."""
        for note in self._notes:
            self._out.write(f"\n{note}\n")
        self._out.flush()

    def _begin(self, row: Row, headings: list[str]) -> None:
        self._begun = True
        graph, budget = row.instance.graph, memory_text(row.instance.budget, row.instance.graph.size_unit)
        nodes, edges = count_text(len(graph.nodes), "node"), count_text(len(graph.edges), "edge")
        share = "" if Budget.parse(row.budget).fraction is None else f" ({row.budget})"
        title = f"{row.graph}: {nodes}, {edges}, budget {budget}{share}"
        self._out.write(f"\n{title}\n\n")
        self._line([(heading, heading) for heading in headings])
        self._line([(heading, "-" * min(len(heading), 3)) for heading in headings])

    def _line(self, cells: list[tuple[str, str]]) -> None:
        padded = (text.ljust(_WIDTHS.get(heading, max(len(heading), 7))) for heading, text in cells)
        self._out.write(f"| {' | '.join(padded)} |\n")
        self._out.flush()
