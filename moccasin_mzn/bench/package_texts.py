"""The words of a package: its README, its licence, and an entry of CSPLib."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.metadata import distribution

from moccasin_mzn.bench.package import CHECKER_FILE, FORMULATION, MODEL_FILE, Graded, Package, grade_text
from moccasin_mzn.bench.package import models as package_models
from moccasin_mzn.bench.rows import Row
from moccasin_mzn.errors import InputError
from moccasin_mzn.formatting import count_text
from moccasin_mzn.formulations.catalogue import find_formulation

_PROBLEM = """\
A computation graph has nodes with a duration and the size of their output. A node is computed after the nodes whose
outputs it reads, and these outputs must be in memory while it is computed. A schedule is a sequence of computations. An
output that was dropped from memory can be had again by computing its node again, at most C times in all. The memory
that is held at any time must be within a budget; the sum of the durations of all computations is to be least. Without a
budget every node is computed once. It is the problem of tensor rematerialization: training a neural network in less
memory than its activations need, by computing some of them again."""
_MODEL = """\
Each computation has a retention interval, from its computation to the last read of its output, and a boolean that says
whether it takes place; intervals fit the budget as one cumulative constraint. Nodes are computed for the first time in
the order in which they are numbered, and are computed again only in stages between these."""
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

Durations and budgets are those of the model; a budget is also told as a share of what the order of the nodes needs
without recomputation. `{known}` says who found and who proved what; who is no solver is a search or a bound of
moccasin_mzn.

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
    package: Package, methods: Sequence[str], grading: Sequence[Row], *, models: bool = True, csplib: bool = False
) -> dict[str, str]:
    """All files, by path.

    Args:
        methods: those that grade.
        grading: their rows of the store.
        models: else instances alone, for the models and the table of best-known values where they are.
        csplib: an entry of CSPLib as well.
    """
    texts, data = package_models(), package.data()
    told = _INSTANCES.format(
        methods="\n".join(_told(method, grading) for method in methods), table=_table(package, methods),
        command=package.command, known=KNOWN_FILE if models else f"../{KNOWN_FILE}",
    )  # fmt: skip
    entry = _csplib(texts, data, _table(package, methods)) if csplib else {}
    return {
        **(texts if models else {}), **data, **({KNOWN_FILE: package.best_known()} if models else {}),
        "README.md": _readme(package.files[0], told, models),
        **({"LICENSE": _licence()} if models else {}),
        **{f"csplib/{name}": text for name, text in entry.items()},
    }  # fmt: skip


def _readme(first: str, instances: str, models: bool) -> str:
    form = find_formulation(FORMULATION)
    if not models:
        model, checker = form.file.name, form.checker_file.name
        return _BARE.format(model=model, checker=checker, first=first, instances=instances)
    return _README.format(
        problem=_PROBLEM, about=_MODEL, model=MODEL_FILE, checker=CHECKER_FILE, first=first, instances=instances,
        cite=_CITATION,
    )  # fmt: skip


def _told(method: str, rows: Sequence[Row]) -> str:
    """A method: its solver, limit and threads, and the machines."""
    own = [row for row in rows if row["method"] == method]
    solver = next((row["solver_version"] for row in own if row["solver_version"]), own[0]["solver"])
    solver += ", with some constraints natively" if own[0]["solver"] == "cp-sat" else ""
    machines = "; ".join(sorted({row["machine"] for row in own if row["machine"]}))
    effort = f"{own[0]['time_limit']:g} s at most, {count_text(own[0]['threads'], 'thread')}"
    return f"- {method}: {solver}, {effort}; {machines}"


def _table(package: Package, methods: Sequence[str]) -> str:
    """The instances in Markdown."""
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
    """LICENSE, that of this package.

    Raises:
        InputError: it was not installed with its licence.
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
