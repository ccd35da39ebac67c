"""An experiment's instances as a package for others: a model in one file, graded `.dzn`, and what is known of each.

Instances are the experiment's graphs within its budgets, graded by the fewest seconds in which one of its methods
proved the optimum. Those chosen are spread evenly over all grades that there are.
"""

from __future__ import annotations

import csv
import io
import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby

from moccasin_mzn.bench.export import distinct_names
from moccasin_mzn.bench.graphs import BenchGraph, instance_within
from moccasin_mzn.bench.known import Known, known_of
from moccasin_mzn.bench.rows import Row
from moccasin_mzn.bench.store import Store
from moccasin_mzn.errors import InputError, shown
from moccasin_mzn.formulations.catalogue import find_formulation
from moccasin_mzn.formulations.exporting import CHECKER, MODEL, data_text, standalone
from moccasin_mzn.formulations.presolve import ModelData
from moccasin_mzn.problem.instance import Instance
from moccasin_mzn.solvers.minizinc.solvers import too_wide

FORMULATION = "staged"
MODEL_FILE, CHECKER_FILE = "moccasin.mzn", "moccasin.mzc.mzn"
"""In the package."""
STEPS_PER_DECADE = 2
"""Grades of difficulty."""
UNSOLVED = 1000
"""The grade of what no method proved."""
FIRST = 0.1
"""Seconds of the first grade, at most."""


def is_of_package(row: Row) -> bool:
    """Is it a run of the package's formulation with the input order, whose optimum is that of its model?"""
    other = row["extension"] or row["objective"] not in (None, "duration") or " --order " in (row["command"] or "")
    return row["formulation"] == FORMULATION and not other


@dataclass(frozen=True)
class Graded:
    """An instance that may be in a package."""

    graph: str
    """Its label in the experiment."""
    budget: str
    """Likewise."""
    instance: Instance
    data: ModelData
    known: Known
    seconds: float | None
    """Of the first method that grades to prove the optimum; None: none of them did."""

    @property
    def grade(self) -> int:
        """From 0 for the easiest."""
        if self.seconds is None:
            return UNSOLVED
        return max(0, math.ceil(STEPS_PER_DECADE * math.log10(max(self.seconds, FIRST) / FIRST) - 1e-9))

    @property
    def duration(self) -> int | None:
        """Of the best schedule, in the model's unit."""
        return None if self.known.duration is None else self.known.duration // self.data.duration_scale

    @property
    def bound(self) -> int | None:
        """What no schedule is below, in the model's unit."""
        return None if self.known.bound is None else -(-self.known.bound // self.data.duration_scale)


def grade_text(grade: int) -> str:
    """A grade in words."""
    if grade == UNSOLVED:
        return "unsolved"
    seconds = FIRST * 10 ** (grade / STEPS_PER_DECADE)
    return f"to {float(f'{seconds:.1g}'):g} s"


def graded(
    graphs: Sequence[BenchGraph], rows: Sequence[Row], store: Store, methods: Sequence[str]
) -> tuple[list[Graded], Counter[str]]:
    """All instances that may be in a package, and how many are left out, by reason.

    Args:
        rows: of the experiment, as planned; see `grading_methods`.
        methods: the labels of those that grade.
    """
    most = rows[0]["max_computations"]
    done = [row for row in store.rows() if is_of_package(row) and row["max_computations"] == most]
    traces = {key: list(points) for key, points in groupby(store.trace_rows(), key=lambda point: point["key"])}
    by_label = {graph.source.label: graph.graph for graph in graphs if graph.graph is not None}
    found, left_out = [], Counter[str]()
    for label, budget, digest, amount in places(rows):
        of_it = {row["key"]: row for row in done if (row["graph_digest"], row["budget_amount"]) == (digest, amount)}
        known = known_of(list(of_it.values()), traces)
        instance = instance_within(by_label[label], amount, most)
        data = find_formulation(FORMULATION).data(instance)
        reason = _unfit(instance, data, known)
        left_out[reason] += 1
        if not reason:
            proofs = [took for method in methods if (took := known.seconds.get(method)) is not None]
            found.append(Graded(label, budget, instance, data, known, min(proofs, default=None)))
    del left_out[""]
    return found, left_out


def places(rows: Iterable[Row]) -> list[tuple[str, str, str, int]]:
    """Labels of graphs and budgets of runs, in their order, with the digest of the graph and the amount."""
    return list(dict.fromkeys((row["graph"], row["budget"], row["graph_digest"], row["budget_amount"]) for row in rows))


def _unfit(instance: Instance, data: ModelData, known: Known) -> str:
    """Why an instance is not for a package; empty: it is."""
    if instance.baseline.peak <= instance.budget:
        return "the input order fits"
    if known.infeasible:
        return "there is no schedule"
    if too_wide(find_formulation(FORMULATION).sums(data)):
        return "sums of more than 32 bits"
    return ""


def chosen(candidates: Iterable[Graded], count: int) -> list[Graded]:
    """So many of them, or all: from one grade after the other, and of each the graph that is there least."""
    grades: dict[int, list[Graded]] = {}
    for one in candidates:
        grades.setdefault(one.grade, []).append(one)
    found: list[Graded] = []
    there = Counter[str]()
    while any(grades.values()):
        for grade in sorted(grades):
            if grades[grade] and len(found) < count:
                one = min(grades[grade], key=lambda one: (one.duration is None, there[one.graph], _size(one)))
                there[one.graph] += 1
                found.append(one)
                grades[grade].remove(one)
        if len(found) == count:
            break
    return sorted(found, key=lambda one: (one.grade, one.seconds or 0.0, _size(one)))


def _size(one: Graded) -> tuple[int, int]:
    return len(one.instance.graph.nodes), len(one.instance.graph.edges)


def data_files(labels: Iterable[tuple[str, str]]) -> list[str]:
    """A name for each instance, by labels of its graph and budget."""
    return [f"{name}.dzn" for name in distinct_names(" ".join(pair) for pair in labels)]


def models() -> dict[str, str]:
    """The model, in one file, with the parts of which CP-SAT has its own form as they are for all; and its checker."""
    texts = standalone(find_formulation(FORMULATION))
    checker = texts.pop(CHECKER)
    whole = "\n".join([texts.pop(MODEL), *texts.values()])
    inside = "|".join(map(re.escape, texts)) or "$^"
    return {
        MODEL_FILE: re.sub(rf'^include "({inside})";[^\n]*\n', "", whole, flags=re.MULTILINE),
        CHECKER_FILE: checker,
    }


@dataclass(frozen=True)
class Package:
    """Instances with their names."""

    instances: Sequence[Graded]
    command: str
    """What makes it."""

    @property
    def files(self) -> list[str]:
        """A name for each instance."""
        return data_files((one.graph, one.budget) for one in self.instances)

    def data(self) -> dict[str, str]:
        """The instances, by name."""
        form = find_formulation(FORMULATION)
        texts = (data_text(one.instance, form, one.data, self.command) for one in self.instances)
        return dict(zip(self.files, texts, strict=True))

    def best_known(self) -> str:
        """A table as CSV, durations as in the model."""
        out = io.StringIO()
        table = csv.writer(out, lineterminator="\n")
        table.writerow(["instance", "duration", "bound", "status", "found_by", "proved_by"])
        for name, one in zip(self.files, self.instances, strict=True):
            status = "optimal" if one.known.proven else "unknown" if one.duration is None else "feasible"
            table.writerow([name, one.duration, one.bound, status, one.known.found_by, one.known.proved_by])
        return out.getvalue()


def grading_methods(rows: Sequence[Row], asked: str | None) -> list[str]:
    """The labels of the methods that grade.

    Args:
        rows: of the experiment, as planned.
        asked: of one; None: of all without searches beside the model, or else of all.

    Raises:
        InputError: no method has the package's formulation, they differ in C, or none has the label.
    """
    searches = {row["method"]: row["search"] for row in rows}
    if not searches:
        raise InputError(f"no method has the formulation {FORMULATION} on graphs, by which instances are graded")
    counts = sorted({row["max_computations"] for row in rows})
    if len(counts) > 1:
        raise InputError(f"methods of the formulation {FORMULATION} differ in C: {', '.join(counts)}")
    if asked is not None and asked not in searches:
        raise InputError(f"--grade-by {shown(asked)}: expected one of {', '.join(map(shown, searches))}")
    alone = [method for method, search in searches.items() if search == "off"]
    return [asked] if asked is not None else alone or list(searches)
