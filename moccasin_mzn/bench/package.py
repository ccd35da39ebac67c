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
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import distribution
from itertools import groupby

from moccasin_mzn.base.errors import InputError, shown
from moccasin_mzn.base.formatting import count_text
from moccasin_mzn.bench.columns import Row, took
from moccasin_mzn.bench.export import distinct_names
from moccasin_mzn.bench.matrix import BenchGraph, instance_within
from moccasin_mzn.bench.store import Store
from moccasin_mzn.formulations.catalogue import find_formulation
from moccasin_mzn.formulations.exporting import CHECKER, MODEL, data_text, standalone
from moccasin_mzn.formulations.presolve import ModelData
from moccasin_mzn.problem.instance import Instance
from moccasin_mzn.search.board import INSTANT
from moccasin_mzn.solvers.minizinc.solvers import too_wide


@dataclass(frozen=True)
class Findings:
    """The findings of the runs in a store on one instance. Durations are in the graph's unit."""

    duration: int | None
    """The duration of the shortest schedule; None: none was found."""
    found_by: str
    bound: int | None
    """No schedule is shorter; None: nothing is proven."""
    proved_by: str
    """The method or search that proved the bound."""
    infeasible: bool
    """True: it is proven that there is no schedule."""
    seconds: Mapping[str, float | None]
    """The seconds to the proof, by method, for its median seed; None: no proof within the time limit."""

    @property
    def proven(self) -> bool:
        """True if no schedule is shorter."""
        return self.duration is not None and self.bound is not None and self.bound >= self.duration


def findings_of(rows: Sequence[Row], traces: Mapping[str, Sequence[Row]]) -> Findings:
    """Combine runs on one instance, whose proofs are for the same set of schedules.

    Args:
        traces: the trace of each run, by its key.
    """
    schedules = [row for row in rows if row["valid"] and row["duration"] is not None]
    best = min(schedules, key=lambda row: row["duration"], default=None)
    bounded = [row for row in rows if row["duration_bound"] is not None]
    tight = max(bounded, key=lambda row: row["duration_bound"], default=None)
    duration = None if best is None else best["duration"]
    bound = None if tight is None else tight["duration_bound"]
    instant = tight is not None and bound == tight["baseline_duration"]
    return Findings(
        duration, "" if best is None else _author(best, traces, "duration"),
        bound, "" if tight is None else INSTANT if instant else _author(tight, traces, "bound"),
        any(row["status"] == "infeasible" for row in rows), _seconds(rows),
    )  # fmt: skip


def _author(row: Row, traces: Mapping[str, Sequence[Row]], what: str) -> str:
    """Return the first source of the best duration or bound in a run's trace; the method where there is no trace."""
    final = row["duration" if what == "duration" else "duration_bound"]
    sources = (point["source"] for point in traces.get(row["key"], ()) if point[what] == final)
    return next(sources, None) or row["method"]


def _seconds(rows: Sequence[Row]) -> dict[str, float | None]:
    found: dict[str, list[float]] = {}
    for row in rows:
        proven = row["status"] in ("optimal", "infeasible")
        found.setdefault(row["method"], []).append(took(row) if proven else float("inf"))
    medians = {method: sorted(all_seeds)[len(all_seeds) // 2] for method, all_seeds in found.items()}
    return {method: None if median == float("inf") else median for method, median in medians.items()}


# --- Grades, and the instances of a package -------------------------------------------------------------------


FORMULATION = "staged"
MODEL_FILE, CHECKER_FILE = "moccasin.mzn", "moccasin.mzc.mzn"
"""The names of the model and its checker in a package."""
STEPS_PER_DECADE = 2
"""The number of grades of difficulty for a factor of 10 in time."""
UNSOLVED = 1000
"""The grade of what no method proved."""
FIRST = 0.1
"""The most seconds of the first grade."""


def is_of_package(row: Row) -> bool:
    """True for a run of the package's formulation with the input order, whose optimum is that of the model."""
    other = row["extension"] or row["objective"] not in (None, "duration") or " --order " in (row["command"] or "")
    return row["formulation"] == FORMULATION and not other


@dataclass(frozen=True)
class Graded:
    """An instance that may be in a package."""

    graph: str
    """The label of the graph in the experiment."""
    budget: str
    """The budget as the experiment has it."""
    instance: Instance
    data: ModelData
    known: Findings
    seconds: float | None
    """The fewest seconds in which a grading method proved the optimum; None: none of them did."""

    @property
    def grade(self) -> int:
        """The grade of difficulty, 0 for the easiest."""
        if self.seconds is None:
            return UNSOLVED
        return max(0, math.ceil(STEPS_PER_DECADE * math.log10(max(self.seconds, FIRST) / FIRST) - 1e-9))

    @property
    def duration(self) -> int | None:
        """The duration of the best schedule, in the model's unit."""
        return None if self.known.duration is None else self.known.duration // self.data.duration_scale

    @property
    def bound(self) -> int | None:
        """The lower bound on durations, in the model's unit."""
        return None if self.known.bound is None else -(-self.known.bound // self.data.duration_scale)


def grade_text(grade: int) -> str:
    """Return a grade in words."""
    if grade == UNSOLVED:
        return "unsolved"
    seconds = FIRST * 10 ** (grade / STEPS_PER_DECADE)
    return f"to {float(f'{seconds:.1g}'):g} s"


def graded(
    graphs: Sequence[BenchGraph], rows: Sequence[Row], store: Store, methods: Sequence[str]
) -> tuple[list[Graded], Counter[str]]:
    """Grade all instances that may be in a package, and count those left out, by reason.

    Args:
        rows: the rows of the experiment, as planned; see `grading_methods`.
        methods: the labels of the grading methods.
    """
    most = rows[0]["max_computations"]
    done = [row for row in store.rows() if is_of_package(row) and row["max_computations"] == most]
    traces = {key: list(points) for key, points in groupby(store.trace_rows(), key=lambda point: point["key"])}
    by_label = {graph.source.label: graph.graph for graph in graphs if graph.graph is not None}
    found, left_out = [], Counter[str]()
    for label, budget, digest, amount in places(rows):
        of_it = {row["key"]: row for row in done if (row["graph_digest"], row["budget_amount"]) == (digest, amount)}
        known = findings_of(list(of_it.values()), traces)
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
    """List label of the graph, budget, digest of the graph and amount of the budget of each instance of some runs."""
    return list(dict.fromkeys((row["graph"], row["budget"], row["graph_digest"], row["budget_amount"]) for row in rows))


def _unfit(instance: Instance, data: ModelData, known: Findings) -> str:
    """Return why an instance is not for a package; empty if it is."""
    if instance.baseline.peak <= instance.budget:
        return "the input order fits"
    if known.infeasible:
        return "there is no schedule"
    if too_wide(find_formulation(FORMULATION).sums(data)):
        return "sums of more than 32 bits"
    return ""


def chosen(candidates: Iterable[Graded], count: int) -> list[Graded]:
    """Choose `count` candidates, or all: grade by grade in turn, from each the graph chosen least often so far."""
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
    """Make a file name for each instance of the labels of its graph and budget."""
    return [f"{name}.dzn" for name in distinct_names(" ".join(pair) for pair in labels)]


def models() -> dict[str, str]:
    """Return the texts of the model, in one file and in the form for all solvers, and of its checker, by file name."""
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
    """The command that makes the package."""

    @property
    def files(self) -> list[str]:
        """The file name of each instance."""
        return data_files((one.graph, one.budget) for one in self.instances)

    def data(self) -> dict[str, str]:
        """Return the data of the instances, by file name."""
        form = find_formulation(FORMULATION)
        texts = (data_text(one.instance, form, one.data, self.command) for one in self.instances)
        return dict(zip(self.files, texts, strict=True))

    def best_known(self) -> str:
        """Return what is known of the instances as CSV, durations in the model's unit."""
        out = io.StringIO()
        table = csv.writer(out, lineterminator="\n")
        table.writerow(["instance", "duration", "bound", "status", "found_by", "proved_by"])
        for name, one in zip(self.files, self.instances, strict=True):
            status = "optimal" if one.known.proven else "unknown" if one.duration is None else "feasible"
            table.writerow([name, one.duration, one.bound, status, one.known.found_by, one.known.proved_by])
        return out.getvalue()


def grading_methods(rows: Sequence[Row], chosen_label: str | None) -> list[str]:
    """List the labels of the grading methods.

    Args:
        rows: the rows of the experiment, as planned.
        chosen_label: the label of the only one; None: all whose model runs alone, or else all.

    Raises:
        InputError: no method has the package's formulation, they differ in C, or none has the label.
    """
    searches = {row["method"]: row["search"] for row in rows}
    if not searches:
        raise InputError(f"no method has the formulation {FORMULATION} on graphs, by which instances are graded")
    counts = sorted({row["max_computations"] for row in rows})
    if len(counts) > 1:
        raise InputError(f"methods of the formulation {FORMULATION} differ in C: {', '.join(counts)}")
    if chosen_label is not None and chosen_label not in searches:
        raise InputError(f"--grade-by {shown(chosen_label)}: expected one of {', '.join(map(shown, searches))}")
    alone = [method for method, search in searches.items() if search == "off"]
    return [chosen_label] if chosen_label is not None else alone or list(searches)


# --- The texts of a package: its README, its licence, and an entry for CSPLib ---------------------------------


_PROBLEM = """\
A computation graph has nodes with a duration and the size of their output. A node is computed after the nodes whose
outputs it reads, and these outputs must be in memory while it is computed. A schedule is a sequence of computations. An
output that was dropped from memory can be recomputed; a node is computed at most C times in total. The memory in use
at any time must be within a budget; the sum of the durations of all computations is minimized. Without a budget every
node is computed once. It is the problem of tensor rematerialization: training a neural network in less memory than its
activations need, by recomputing some of them."""
_MODEL = """\
Each computation has a retention interval, from its computation to the last read of its output, and a boolean that is
true if it takes place; intervals fit the budget as one cumulative constraint. Nodes are computed for the first time in
the order in which they are numbered, and are recomputed only in stages between these."""
_README = """\
# Tensor rematerialization

{problem}

{about}

`{model}` is the model, from the paper cited below with redundant constraints of moccasin_mzn, and needs nothing but
MiniZinc's library. `{checker}` checks solutions and shares nothing with it.

    minizinc --solver SOLVER {model} {checker} {first}

## Instances

{instances}

## Source

{cite}

Licence: MIT, see `LICENSE`. Author: moccasin_mzn.
"""
_BARE = """\
# Instances

Data of `{model}`, see [models](../../models/README.md); in the folder of the models:

    minizinc --solver SOLVER {model} {checker} ../data/instances/{first}

{instances}
"""
_INSTANCES = """\
Grades are the fewest seconds in which one of these proved the optimum, compilation included; unsolved: none did.

{methods}

Durations and budgets are those of the model; a budget is also given as a share of what the order of the nodes needs
without recomputation. `{known}` lists who found each schedule and who proved each bound; names that are not solvers are
searches and bounds of moccasin_mzn.

{table}

Made by: `{command}`"""
_CITATION = (
    "Bartan, Li, Teague, Lott, Dilkina: Moccasin: Efficient Tensor Rematerialization for Neural Networks, "
    "Proceedings of the 40th International Conference on Machine Learning, 2023."
)
_SPECIFICATION = """\
---
Title:    Tensor rematerialization
Proposer: moccasin_mzn
Category: Scheduling and related problems
---

{problem}

The problem and the model are those of cite{{{key}}}.

{about}

An instance gives the nodes, numbered in an order in which they can be computed, their durations and sizes, the edges,
the budget and C.
"""
_KEY = "bartan2023moccasin"
_BIB = """\
@inproceedings{{{key},
  title = {{Moccasin: Efficient Tensor Rematerialization for Neural Networks}},
  author = {{Bartan, Burak and Li, Haoming and Teague, Harris and Lott, Christopher and Dilkina, Bistra}},
  booktitle = {{Proceedings of the 40th International Conference on Machine Learning}},
  series = {{Proceedings of Machine Learning Research}},
  volume = {{202}},
  pages = {{1826--1837}},
  year = {{2023}},
  url = {{https://proceedings.mlr.press/v202/bartan23a.html}}
}}
"""
KNOWN_FILE = "best_known.csv"
_METADATA = "---\nTitle: {title}\nType: MiniZinc\n---\n"


def package_files(
    package: Package, methods: Sequence[str], grading: Sequence[Row], *, whole: bool = True, csplib: bool = False
) -> dict[str, str]:
    """Return the texts of all files, by path.

    Args:
        methods: the labels of the grading methods.
        grading: the rows of these methods in the store.
        whole: True for a package that stands alone; False for the instances alone, for a folder next to that of
            the models and below the table of best-known values.
        csplib: True to add an entry of CSPLib.
    """
    texts, data = models(), package.data()
    instances = _INSTANCES.format(
        methods="\n".join(_method_line(method, grading) for method in methods), table=_table(package, methods),
        command=package.command, known=KNOWN_FILE if whole else f"../{KNOWN_FILE}",
    )  # fmt: skip
    entry = _csplib(texts, data, _table(package, methods)) if csplib else {}
    return {
        **(texts if whole else {}), **data, **({KNOWN_FILE: package.best_known()} if whole else {}),
        "README.md": _readme(package.files[0], instances, whole),
        **({"LICENSE": _licence()} if whole else {}),
        **{f"csplib/{name}": text for name, text in entry.items()},
    }  # fmt: skip


def _readme(first: str, instances: str, whole: bool) -> str:
    form = find_formulation(FORMULATION)
    if not whole:
        model, checker = form.file.name, form.checker_file.name
        return _BARE.format(model=model, checker=checker, first=first, instances=instances)
    return _README.format(
        problem=_PROBLEM, about=_MODEL, model=MODEL_FILE, checker=CHECKER_FILE, first=first, instances=instances,
        cite=_CITATION,
    )  # fmt: skip


def _method_line(method: str, rows: Sequence[Row]) -> str:
    """Describe a method: its solver, limit and threads, and the machines."""
    own = [row for row in rows if row["method"] == method]
    solver = next((row["solver_version"] for row in own if row["solver_version"]), own[0]["solver"])
    solver += ", with some constraints natively" if own[0]["solver"] == "cp-sat" else ""
    machines = "; ".join(sorted({row["machine"] for row in own if row["machine"]}))
    effort = f"{own[0]['time_limit']:g} s at most, {count_text(own[0]['threads'], 'thread')}"
    return f"- {method}: {solver}, {effort}; {machines}"


def _table(package: Package, methods: Sequence[str]) -> str:
    """Return the table of the instances in Markdown."""
    headings = ["instance", "n", "m", "budget", "of peak", "C", "grade", "best known", "bound", "by", "proved by",
                *(f"{method}, s" for method in methods)]  # fmt: skip
    rows = [[name, *_cells(one, methods)] for name, one in zip(package.files, package.instances, strict=True)]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in [headings, ["---"] * len(headings), *rows])


def _cells(one: Graded, methods: Sequence[str]) -> list[str]:
    instance, known = one.instance, one.known
    seconds = (known.seconds.get(method) for method in methods)
    return [
        f"{len(instance.graph.nodes)}", f"{len(instance.graph.edges)}", f"{one.data.budget}",
        f"{instance.budget / instance.baseline.peak:.3f}", f"{max(instance.max_computations)}", grade_text(one.grade),
        _number(one.duration), _number(one.bound), known.found_by or "-",
        known.proved_by if known.proven else "-", *("-" if took is None else f"{took:.1f}" for took in seconds),
    ]  # fmt: skip


def _number(value: int | None) -> str:
    return "-" if value is None else str(value)


def _licence() -> str:
    """Return the text of this package's LICENSE.

    Raises:
        InputError: the package was installed without its licence.
    """
    text = distribution("moccasin_mzn").read_text("licenses/LICENSE")
    if text is None:
        raise InputError("this installation of moccasin_mzn has lost its LICENSE")
    return text


def _csplib(models: Mapping[str, str], data: Mapping[str, str], table: str) -> dict[str, str]:
    titles = {MODEL_FILE: "Retention intervals in stages", CHECKER_FILE: "Solution checker"}
    return {
        "specification.md": _SPECIFICATION.format(problem=_PROBLEM, about=_MODEL, key=_KEY),
        **{f"models/{name}": text for name, text in models.items()},
        **{f"models/{name}.metadata": _METADATA.format(title=titles.get(name, "")) for name in models},
        **{f"data/{name}": text for name, text in data.items()},
        "references/references.bib": _BIB.format(key=_KEY),
        "results/best_known.inline.md": f"Best known, and seconds to a proof:\n\n{table}\n",
    }
