"""Formulations of schedules: a model file, the data for it, and the sequence that a solution stands for."""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import add
from pathlib import Path
from typing import ClassVar

from moccasin_mzn.base.errors import InputError
from moccasin_mzn.base.formatting import count_text
from moccasin_mzn.base.option import Option
from moccasin_mzn.formulations import models
from moccasin_mzn.formulations.models import models_folder
from moccasin_mzn.formulations.presolve import ModelData
from moccasin_mzn.formulations.retention import Intervals, encode
from moccasin_mzn.formulations.searched import Searched, Solution
from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.graphs.wording import names_of, node_text
from moccasin_mzn.problem.features import OF_ONE_MEMORY, Features
from moccasin_mzn.problem.instance import Instance
from moccasin_mzn.problem.stages import first_out_of_stage
from moccasin_mzn.solvers.minizinc.run import Value
from moccasin_mzn.solvers.minizinc.solvers import Sum

_PRESOLVED = ("max_computations", "input_order_memory", "earliest_stage", "latest_stage", "critical_stage")
"""Items of the `.dzn` file that are fields of `ModelData` and have defaults."""

MODEL = Option(
    "FILE.mzn", "A MiniZinc model of your own, which reads the data of the formulation and prints its solutions."
)


@dataclass(frozen=True)
class Growth:
    """Orders of growth in n nodes, m edges and C computations per node, of a formulation before presolve.

    The paper's claim (abstract, 2.5) is O(n) integers for MOCCASIN against O(n^2) booleans for Checkmate. The other
    entries follow from the constraint groups of the models.
    """

    booleans: str
    integers: str
    domain: str
    """Values of the largest integer domain; memory apart."""
    constraints: str


@dataclass(frozen=True)
class Variant:
    """A formulation as `compare` runs it."""

    label: str = ""
    """Follows the formulation's name; empty: the name is enough."""
    options: Mapping[str, object] = field(default_factory=dict)
    """Options of `solve` in addition to the formulation."""
    max_computations: int | str | None = None
    """C as `solve` takes it; None: its default."""


@dataclass(frozen=True, kw_only=True)
class Formulation(Searched[Instance, ModelData, Sequence[int]]):
    """A model of schedules, with its description. The objects stand in `catalogue`, and every list of
    formulations is made from them. Warm starts are retention intervals in all of them."""

    name: str
    """The name on the command line."""
    title: str
    """A few words for people."""
    source: str
    """The publication and its section."""
    guarantee: str
    """The guarantee that an optimal schedule of it has."""
    growth: Growth
    staged: bool = True
    """Do its schedules keep to stages of the input order? Then so do its proofs. All such schedules, with at most C
    computations per node if it is `limited`, must be solutions; all schedules in any order, if it is not staged."""
    index: str = "affine"
    """Numbering of staged events, "affine" or "triangular"; see `Moccasin`."""
    family: str = ""
    """The method whose published figures are its own, as columns of a table of these name it; empty: there are none."""
    variants: tuple[Variant, ...] = field(default=(Variant(), Variant("alone", {"search": "off"})), compare=False)
    """The variants that a comparison runs."""

    model: str = ""
    """The file of another model: it takes the same data, and its solutions stand for the same."""

    handles: ClassVar[Features] = OF_ONE_MEMORY
    limited: ClassVar[bool] = True
    """If not, a node is computed at most once per stage, and the model runs alone: local search and bounds are about
    C."""
    own_options: ClassVar[Mapping[str, Option]] = {"model": MODEL}
    """Options of `solve` that are fields of this formulation; their first choice is the default."""

    def forms(self) -> Iterator[tuple[str, Formulation]]:
        """The forms whose sizes are worth a comparison, each with a name."""
        yield self.name, self

    @property
    def file(self) -> Path:
        return Path(self.model) if self.model else models_folder() / self.main

    @property
    def program(self) -> Path | str:
        return models.text(self.file) if self.model else self.file

    @property
    def called(self) -> str:
        """The formulation's name, or that of the model in its place."""
        return self.file.stem if self.model else self.name

    @property
    def main(self) -> str:
        """The file name of its model."""
        return f"{self.name.replace('-', '_')}.mzn"

    @property
    def checker(self) -> str:
        return "staged.mzc.mzn" if self.staged else "general.mzc.mzn"

    @property
    def checker_file(self) -> Path:
        """The solution checker."""
        return models_folder() / self.checker

    @abstractmethod
    def data(self, problem: Instance) -> ModelData:
        """The reduced data of an instance."""

    @abstractmethod
    def sequence(self, data: ModelData, values: Solution) -> tuple[int, ...]:
        """Positions in `graph.nodes` in the order of computing them, from a solution's arrays as attributes."""

    @abstractmethod
    def copies_counted(self, data: ModelData) -> tuple[int, ...]:
        """Return how many times the size of each node, and its workspace, may occur in one sum of the model."""

    def answer(self, data: ModelData, values: Solution) -> tuple[int, ...]:
        try:
            return self.sequence(data, values)
        except AttributeError as missing:
            if not self.model:
                raise
            text = f"{self.file.name}: its solutions have no `{missing.name}`, and --formulation {self.name} reads it"
            raise InputError(text) from None

    def objective(self, data: ModelData, value: int) -> int:
        return value * data.duration_scale

    def items(
        self, problem: Instance, data: ModelData, incumbent: Sequence[int] | None, limit: int | None,
        objective: str = "duration",
    ) -> dict[str, Value]:  # fmt: skip
        limit = None if limit is None else limit // data.duration_scale
        return self.data_items(problem.graph, data, incumbent, limit, objective)

    def check_start(self, problem: Instance, sequence: Sequence[int]) -> Sequence[int]:
        """A schedule, as it is: within the budget, and a solution but for what is at its end to no use."""
        graph, most = problem.graph, problem.max_computations
        flaws = [violation.message for violation in problem.judge(sequence).violations]
        if not flaws and self.limited:
            often = [(v, count) for v, count in Counter(sequence).items() if count > most[v]]
            flaws = [
                f"node {node_text(graph, v)} is computed {count_text(count, 'time')}, at most {most[v]} allowed"
                for v, count in often
            ]
        if not flaws:
            flaws = [flaw for flaw in [self.out_of_scope(problem, sequence)] if flaw is not None]
        if flaws:
            raise InputError(f"warm start: {flaws[0]}")
        return sequence

    def out_of_scope(self, problem: Instance, sequence: Sequence[int]) -> str | None:
        position = first_out_of_stage(problem.order, problem.useful(sequence)) if self.staged else None
        if position is None:
            return None
        node = node_text(problem.graph, sequence[position - 1])
        return f"position {position}: node {node} is out of place in stages of the input order"

    def sums(self, data: ModelData) -> tuple[Sum, ...]:
        durations = tuple(w * most for w, most in zip(data.duration, data.max_computations, strict=True))
        amounts = map(add, data.size, data.workspace) if data.workspace else data.size
        sizes = tuple(m * times for m, times in zip(amounts, self.copies_counted(data), strict=True))
        return (
            Sum("duration", durations, data.order, data.duration_scale),
            Sum("size", sizes, data.order, data.size_scale),
        )

    def data_items(
        self,
        graph: ComputationGraph,
        data: ModelData,
        incumbent: Sequence[int] | Intervals | None = None,
        duration_limit: int | None = None,
        objective: str = "duration",
    ) -> dict[str, Value]:
        """The items of the `.dzn` file, as declared in `models/lib/instance.mzn`; what has its default is left out.

        Args:
            incumbent: the warm start, as a sequence or as what stands for it in the model; None if absent.
            duration_limit: only schedules that take no longer count, in the model's duration unit; None: all count.
            objective: see `choices`.
        """
        items = header(graph, data.order, data.duration, data.size, data.edges, data.budget)
        items |= {"workspace": data.workspace} if data.workspace else {}
        items |= {"in_place": data.in_place} if data.in_place else {}
        items |= {"output_of": data.output_of} if data.output_of else {}
        items |= {name: getattr(data, name) for name in _PRESOLVED[: None if data.presolved else 1]}
        if data.entry or data.exit:
            items |= {"entry": data.entry, "absent": data.absent, "exit": data.exit}
        if duration_limit is not None:
            items["duration_limit"] = duration_limit
        if incumbent is not None:
            start = incumbent
            if not isinstance(start, Intervals):
                start = encode(graph, data, start, self.staged, self.index)
            items |= {f"incumbent_{name}": values for name, values in vars(start).items()}
        return items | self.choices(objective)

    def choices(self, objective: str) -> dict[str, Value]:
        """Return the parameters of the model that select a form of it, as items; defaults are left out.

        Args:
            objective: "duration" or, if `two_phase`, "peak".
        """
        return {}


def header(
    graph: ComputationGraph, order: Sequence[int], duration: Sequence[int], size: Sequence[int],
    edges: Sequence[tuple[int, int]], budget: int,
) -> dict[str, Value]:  # fmt: skip
    """The items that have no default: the graph, along an order, and the budget.

    Args:
        order: positions in `graph.nodes`; -1 for what is no node of it.
        edges: (tail, head) by number in the order, from 1.
    """
    names = names_of(graph)
    return {
        "nodes": len(order),
        "name": [names[v] if v >= 0 else "" for v in order],
        "duration": duration,
        "size": size,
        "edges": len(edges),
        "tail": [tail for tail, _ in edges],
        "head": [head for _, head in edges],
        "budget": budget,
    }
