"""What every formulation offers: a model file, the data for it, and the sequence that a solution stands for."""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any, ClassVar

from moccasin_mzn.errors import InputError
from moccasin_mzn.formulations.presolve import ModelData
from moccasin_mzn.formulations.retention import Intervals, encode
from moccasin_mzn.formulations.searched import Searched
from moccasin_mzn.formulations.warm_start import first_out_of_stage
from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.graphs.wording import node_text
from moccasin_mzn.option import Option
from moccasin_mzn.problem.instance import Instance
from moccasin_mzn.solvers.minizinc.integers import Sum
from moccasin_mzn.words import count_text

_AS_IN_DATA = (
    "duration", "size", "budget", "input_order_memory", "max_computations", "entry", "absent", "exit", "earliest_stage",
    "latest_stage", "critical_stage",
)  # fmt: skip
"""Items of the `.dzn` file that are fields of `ModelData`."""


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
    """Follows the formulation's name; empty: the name says it all."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Of `solve`, beside the formulation."""
    max_computations: int | str | None = None
    """As `solve` takes it; None: its default."""


@dataclass(frozen=True, kw_only=True)
class Formulation(Searched):
    """A model of schedules, and all that is told of it. The objects stand in `catalogue`, and every list of
    formulations is made from them. Warm starts are retention intervals in all of them."""

    name: str
    """As on the command line; its model is the file of this name, with underscores."""
    title: str
    """A few words for people."""
    source: str
    """The publication and its section."""
    guarantee: str
    """What is known of its schedules."""
    growth: Growth
    staged: bool = True
    """Do its schedules keep to stages of the input order? Then so do its proofs. All such schedules, with at most C
    computations per node if it is `limited`, must be solutions; all schedules in any order, if it is not staged."""
    index: str = "affine"
    """Numbering of staged events, "affine" or "triangular"; see `Moccasin`."""
    family: str = ""
    """Whose published figures are its own, as columns of a table of published figures name it; empty: nobody's."""
    variants: tuple[Variant, ...] = field(default=(Variant(), Variant("alone", {"search": "off"})), compare=False)
    """What a comparison runs."""

    limited: ClassVar[bool] = True
    """If not, a node is computed at most once per stage, and the model runs alone: local search and bounds are about
    C."""
    checker: ClassVar[str] = "schedule.mzc.mzn"
    own_options: ClassVar[Mapping[str, Option]] = {}
    """Options of `solve` that are fields of this formulation; their first choice is the default."""

    def forms(self) -> Iterator[tuple[str, Formulation]]:
        """The forms whose sizes are worth a comparison, each with a name."""
        yield self.name, self

    def model(self, objective: str) -> Path:
        """For "duration" or, if `two_phase`, "peak"."""
        return models_folder() / f"{self.name.replace('-', '_')}.mzn"

    @property
    def checker_file(self) -> Path:
        """The solution checker."""
        return models_folder() / self.checker

    @abstractmethod
    def presolve(self, instance: Instance) -> ModelData:
        """The reduced data of an instance."""

    @abstractmethod
    def sequence(self, data: ModelData, values: Any) -> tuple[int, ...]:
        """Positions in `graph.nodes` in the order of computing them, from a solution's arrays as attributes."""

    @abstractmethod
    def copies_counted(self, data: ModelData) -> tuple[int, ...]:
        """How many times the size of each node may occur in one sum of the model."""

    def data(self, problem: Instance) -> ModelData:
        return self.presolve(problem)

    def answer(self, data: ModelData, values: Any) -> tuple[int, ...]:
        return self.sequence(data, values)

    def objective(self, data: ModelData, value: int) -> int:
        return value * data.duration_scale

    def items(
        self, problem: Instance, data: ModelData, incumbent: Sequence[int] | None, limit: int | None
    ) -> dict[str, Any]:
        return self.data_items(problem.graph, data, incumbent, None if limit is None else limit // data.duration_scale)

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
        position = first_out_of_stage(problem.order, problem.useful(sequence)) if self.staged and not flaws else None
        if position is not None:
            node = node_text(graph, sequence[position - 1])
            flaws = [f"position {position}: node {node} is out of place in stages of the input order"]
        if flaws:
            raise InputError(f"warm start: {flaws[0]}")
        return sequence

    def sums(self, data: ModelData) -> tuple[Sum, ...]:
        durations = tuple(w * most for w, most in zip(data.duration, data.max_computations, strict=True))
        sizes = tuple(m * times for m, times in zip(data.size, self.copies_counted(data), strict=True))
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
    ) -> dict[str, Any]:
        """The items of the `.dzn` file, as declared in `models/lib/instance.mzn`.

        Args:
            incumbent: the warm start, as a sequence or as what stands for it in the model; None: there is none.
            duration_limit: only schedules that take no longer count, in the model's duration unit; None: all count.
        """
        if not isinstance(incumbent, Intervals):
            none = Intervals((), (), ())
            incumbent = encode(graph, data, incumbent, self.staged, self.index) if incumbent else none
        if duration_limit is None:
            duration_limit = sum(w * most for w, most in zip(data.duration, data.max_computations, strict=True))
        return {
            "nodes": len(data.size),
            "edges": len(data.edges),
            "tail": [tail for tail, _ in data.edges],
            "head": [head for _, head in data.edges],
            **{name: getattr(data, name) for name in _AS_IN_DATA},
            "duration_limit": duration_limit,
            "incumbent_active": incumbent.active,
            "incumbent_start": incumbent.start,
            "incumbent_end": incumbent.end,
        }


def models_folder() -> Path:
    """Where the `.mzn` files are: inside an installed package, or beside the package in a checkout."""
    package = Path(str(resources.files("moccasin_mzn")))
    installed = package / "models"
    return installed if installed.is_dir() else package.parent / "models"
