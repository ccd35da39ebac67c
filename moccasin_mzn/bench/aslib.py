"""A store as a scenario of ASlib, the library of algorithm selection (Bischl et al., Artificial Intelligence, 2016).

Instances are graphs within budgets, algorithms are methods, repetitions are seeds. Performance is the seconds to a
proof, of whatever is best or that there is nothing, censored at the time limit: a method that proves nothing, as
strategies do, has always timed out. Features are those of `features`, for the input order.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from moccasin_mzn.bench.export import distinct_names, empty_folder
from moccasin_mzn.bench.features import STEPS, features
from moccasin_mzn.bench.graphs import instance_within, parsed, unpacked
from moccasin_mzn.bench.rows import Row, took
from moccasin_mzn.bench.store import Store
from moccasin_mzn.errors import InputError, require, shown
from moccasin_mzn.files import replace_file
from moccasin_mzn.problem.files.schedules import USUAL_COUNT
from moccasin_mzn.problem.instance import Instance

RUN_STATUS = {
    "optimal": "ok", "infeasible": "ok", "feasible": "timeout", "unknown": "timeout", "over-budget": "timeout",
    "not-applicable": "not_applicable", "error": "crash", "out-of-memory": "memout", "out-of-time": "timeout",
    "crashed": "crash",
}  # fmt: skip
NOT_RUN = "other"
"""Of a method on an instance that it was not for."""
FOLDS = 10
_README = """\
Made by: python -m moccasin_mzn bench export STORE --format aslib

Instances are computation graphs within memory budgets, to be scheduled in the least time with recomputation of
tensors. Algorithms are methods of the experiment {experiment}. PAR10 is the seconds to a proof of the optimum, or that
there is no schedule within the budget, at most the time limit; the run status is ok if there is such a proof.
A method that was not run on an instance has the status "{not_run}" there.

Features (seconds of their computation are in feature_costs.arff):
{features}
"""


def export_aslib(store: Store, folder: Path, experiment: str | None = None) -> list[Path]:
    """Write a scenario of one experiment's runs into a new folder.

    Args:
        experiment: its name; None: the only one in the store.

    Raises:
        InputError: there are several experiments, or there is none of the name; it has no runs of schedules for one
            memory; graphs are not in the store; the folder is there and not empty, or cannot be written.
    """
    scenario = _Scenario(_runs_of(store.rows(), experiment, store.path), store.graphs(), store.path)
    texts = scenario.files()
    empty_folder(folder)
    for name, text in texts.items():
        replace_file(folder / name, text)
    return [folder / name for name in texts]


def _runs_of(rows: Sequence[Row], experiment: str | None, path: Path) -> list[Row]:
    names = list(dict.fromkeys(row["experiment"] for row in rows))
    if experiment is None and len(names) > 1:
        raise InputError(f"{path}: of which experiment? give --experiment, one of {', '.join(map(shown, names))}")
    if experiment is not None and experiment not in names:
        raise InputError(f"{path}: there is no experiment {shown(experiment)}")
    name = experiment or names[0] if names else None
    found = [row for row in rows if row["experiment"] == name and row["budget_amount"] is not None
             and not row["extension"]]  # fmt: skip
    if not found:
        raise InputError(f"{path}: there are no runs of schedules for one memory")
    return found


@dataclass(frozen=True)
class _Scenario:
    rows: Sequence[Row]
    graphs: Mapping[str, bytes]
    path: Path

    @cached_property
    def names(self) -> dict[tuple[str, int], str]:
        """An id for each instance, by digest of the graph and budget."""
        first = {(row["graph_digest"], row["budget_amount"]): f"{row['graph']} {row['budget']}" for row in self.rows}
        return dict(zip(first, distinct_names(first.values()), strict=True))

    @cached_property
    def methods(self) -> dict[str, str]:
        """An id for each."""
        labels = dict.fromkeys(row["method"] for row in self.rows)
        return dict(zip(labels, distinct_names(labels), strict=True))

    @property
    def cutoff(self) -> float:
        """The shortest time limit: what took longer is censored."""
        return min(row["time_limit"] for row in self.rows)

    def files(self) -> dict[str, str]:
        """The texts of all files, by name."""
        require("bench", "yaml")
        import yaml

        found = {key: features(self._instance(*key)) for key in self.names}
        values = [[self.names[key], 1, *values.values()] for key, (values, _) in found.items()]
        costs = [[self.names[key], 1, *seconds.values()] for key, (_, seconds) in found.items()]
        statuses = [[name, 1, *["ok"] * len(STEPS)] for name in self.names.values()]
        algorithm = {"algorithm": "STRING", "PAR10": "NUMERIC",
                     "runstatus": "{ok, timeout, memout, not_applicable, crash, other}"}  # fmt: skip
        of = dict.fromkeys(STEPS, "{ok, timeout, memout, presolved, crash, other}")
        numbers = dict.fromkeys((one.name for those in STEPS.values() for one in those), "NUMERIC")
        told = "".join(f"  {one.name}: {one.meaning}\n" for those in STEPS.values() for one in those)
        experiment = self.rows[0]["experiment"]
        return {
            "description.txt": yaml.safe_dump(self._description(), sort_keys=False, allow_unicode=True),
            "algorithm_runs.arff": self._arff("ALGORITHM_RUNS", algorithm, self._runs()),
            "feature_values.arff": self._arff("FEATURE_VALUES", numbers, values),
            "feature_runstatus.arff": self._arff("FEATURE_RUNSTATUS", of, statuses),
            "feature_costs.arff": self._arff("FEATURE_COSTS", dict.fromkeys(STEPS, "NUMERIC"), costs),
            "cv.arff": self._arff("CV", {"fold": "NUMERIC"}, self._folds()),
            "readme.txt": _README.format(experiment=experiment, not_run=NOT_RUN, features=told.rstrip("\n")),
        }

    def _instance(self, digest: str, budget: int) -> Instance:
        if digest not in self.graphs:
            label = next(row["graph"] for row in self.rows if row["graph_digest"] == digest)
            raise InputError(
                f"{self.path}: graph {label} is not in this older store; bench run of its experiment adds it"
            )
        same = {row["max_computations"] for row in self.rows} - {None}
        (most,) = same if len(same) == 1 else (str(USUAL_COUNT),)
        return instance_within(parsed(unpacked(self.graphs[digest])), budget, most)

    def _description(self) -> dict[str, Any]:
        names = [feature.name for those in STEPS.values() for feature in those]
        seeded = {row["method"] for row in self.rows if row["seed"] is not None}
        limits = {row["memory_limit"] for row in self.rows} - {None}
        return {
            "scenario_id": self._relation,
            "performance_measures": ["PAR10"],
            "maximize": [False],
            "performance_type": ["runtime"],
            "algorithm_cutoff_time": self.cutoff,
            "algorithm_cutoff_memory": min(limits) // 2**20 if limits else "?",
            "features_cutoff_time": "?",
            "features_cutoff_memory": "?",
            "number_of_feature_steps": len(STEPS),
            "feature_steps": {step: {"provides": [one.name for one in those]} for step, those in STEPS.items()},
            "default_steps": list(STEPS),
            "features_deterministic": names,
            "features_stochastic": None,
            "metainfo_algorithms": {
                name: {"configuration": "", "deterministic": label not in seeded}
                for label, name in self.methods.items()
            },
        }  # fmt: skip

    @property
    def _relation(self) -> str:
        (name,) = distinct_names([self.rows[0]["experiment"]])
        return name

    def _runs(self) -> list[list[Any]]:
        """Every method on every instance, at least once."""
        seeds = sorted({row["seed"] for row in self.rows} - {None})
        found: dict[tuple[Any, ...], list[Any]] = {}
        for row in self.rows:
            seconds, status = took(row), RUN_STATUS[row["status"]]
            status = "timeout" if status == "ok" and seconds > self.cutoff else status
            turn = 1 if row["seed"] is None else seeds.index(row["seed"]) + 1
            place = (row["graph_digest"], row["budget_amount"]), row["method"], turn
            found[place] = [max(seconds, 0.001) if status == "ok" else self.cutoff, status]
        done = {place[:2] for place in found}
        others = ((key, method) for key in self.names for method in self.methods)
        found |= {(*pair, 1): [self.cutoff, NOT_RUN] for pair in others if pair not in done}
        lines = sorted(found.items(), key=lambda one: (self.names[one[0][0]], self.methods[one[0][1]], one[0][2]))
        return [[self.names[key], turn, self.methods[method], *told] for (key, method, turn), told in lines]

    def _folds(self) -> list[list[Any]]:
        """All budgets of a graph are in one fold: what is learnt of one tells of the others."""
        digests = sorted({digest for digest, _ in self.names}, key=lambda one: hashlib.sha256(one.encode()).digest())
        fold = {digest: place % FOLDS + 1 for place, digest in enumerate(digests)}
        return [[name, 1, fold[digest]] for (digest, _), name in self.names.items()]

    def _arff(self, relation: str, attributes: Mapping[str, str], lines: Iterable[Sequence[Any]]) -> str:
        every = {"instance_id": "STRING", "repetition": "NUMERIC", **attributes}
        declared = "".join(f"@ATTRIBUTE {name} {kind}\n" for name, kind in every.items())
        data = "".join(",".join(map(str, line)) + "\n" for line in lines)
        return f"@RELATION {relation}_{self._relation}\n\n{declared}\n@DATA\n{data}"
