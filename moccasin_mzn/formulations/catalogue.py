"""The formulations: one object each, which lists, help, comparisons and tables are made from; and Checkmate's class."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from importlib.metadata import entry_points
from typing import ClassVar

from moccasin_mzn.base.doc_links import Page
from moccasin_mzn.base.errors import InputError, shown
from moccasin_mzn.base.files import JsonObject
from moccasin_mzn.base.formatting import one_of
from moccasin_mzn.formulations.formulation import Formulation, Growth, Variant
from moccasin_mzn.formulations.moccasin import Moccasin
from moccasin_mzn.formulations.models import included
from moccasin_mzn.formulations.presolve import ModelData, presolve
from moccasin_mzn.formulations.searched import PlanFormulation, Searched, Solution
from moccasin_mzn.problem.features import OF_ONE_MEMORY, Feature, Features
from moccasin_mzn.problem.instance import MOST_COMPUTATIONS, Instance
from moccasin_mzn.solvers.minizinc.run import Member, Value


@dataclass(frozen=True, kw_only=True)
class Checkmate(Formulation):
    """Checkmate's mixed-integer program (Jain et al., MLSys 2020): a node is computed at most once per stage.

    Its schedules are those of the staged formulation with C = n.
    """

    strengthened: bool = False
    """With memory by outputs that are alive until their last use in a stage, without a large constant, and without
    recomputations that presolve finds useless; otherwise as published."""

    handles: ClassVar[Features] = OF_ONE_MEMORY - {Feature.IN_PLACE, Feature.ANY_ORDER}
    limited: ClassVar[bool] = False

    @property
    def main(self) -> str:
        return "checkmate.mzn"

    @property
    def checker(self) -> str:
        return "checkmate.mzc.mzn"

    def choices(self, objective: str) -> dict[str, Value]:
        return {"memory": Member("ALIVE")} if self.strengthened else {}

    def data(self, problem: Instance) -> ModelData:
        """Every node may be computed in every stage from its own on; the strengthened form looks at the useful ones."""
        self.refuse_others(problem)
        n = len(problem.order)
        unlimited = replace(problem, max_computations=(min(n, MOST_COMPUTATIONS),) * n)
        data = presolve(unlimited, staged=True)
        stages = range(1, n + 1)
        data = replace(data, max_computations=tuple(n - v + 1 for v in stages), critical_stage=frozenset())
        if self.strengthened:
            return data
        return replace(data, earliest_stage=tuple(min(v + 1, n) for v in stages), latest_stage=(n,) * n)

    def copies_counted(self, data: ModelData) -> tuple[int, ...]:
        """Count an output twice: a stage keeps it and computes it."""
        return (2,) * len(data.size)

    def sequence(self, data: ModelData, values: Solution) -> tuple[int, ...]:
        """Return the computations stage by stage, and within a stage in the input order."""
        return tuple(v for row in values.R for v, computed in zip(data.order, row, strict=True) if computed)

    def solution_items(self, data: ModelData, values: Solution) -> dict[str, Value]:
        return {"R": values.R, "S": values.S, "total_duration": values.objective}

    def parameters(self) -> str:
        """If it lacks its whole linear relaxation CP-SAT finds no bound here."""
        return "linearization_level:2"


# --- The objects ----------------------------------------------------------------------------------------------


GROUP = "moccasin_mzn.formulations"
_CHECKMATE: JsonObject = {
    "family": "checkmate",
    "growth": Growth("n^2 + n m", "n^2, memory only", "-", "n^2 + n m"),
    "guarantee": "optimal among schedules in stages of the input order",
    "variants": (Variant("cp-sat", {"solver": "cp-sat"}), Variant("highs", {"solver": "highs"})),
}

FORMULATIONS: tuple[Formulation, ...] = (
    Moccasin(
        name="staged",
        title="retention intervals in stages of the input order",
        source="Bartan et al., ICML 2023, sections 2.1 to 2.4",
        guarantee="optimal among schedules in stages of the input order with at most C computations per node",
        family="moccasin",
        growth=Growth("C n + C^2 m", "C n", "n^2", "C n + C^2 m"),
        variants=(
            Variant(),
            Variant("auto", max_computations="auto"),
            Variant("alone", {"search": "off"}),
            Variant("reservoir", {"precedence": "reservoir", "search": "off"}),
            Variant(
                "published", {"precedence": "reservoir", "index": "triangular", "search": "off", "two_phase": True}
            ),
        ),
    ),
    Moccasin(
        name="general",
        title="retention intervals, the order is open",
        source="Bartan et al., ICML 2023, sections 2.1 and 2.2",
        guarantee="optimal among all schedules with at most C computations per node",
        staged=False,
        family="moccasin",
        growth=Growth("C n + C^2 m", "C n", "C n", "C n + C^2 m"),
        variants=(
            Variant(),
            Variant("alone", {"search": "off"}),
            Variant("reservoir", {"precedence": "reservoir", "search": "off", "two_phase": True}),
        ),
    ),
    Checkmate(
        name="checkmate-milp",
        title="0-1 matrices R, S, FREE of nodes and stages",
        source="Jain et al., MLSys 2020, section 4",
        **_CHECKMATE,
    ),
    Checkmate(
        name="checkmate-milp-strengthened",
        title="the same with memory by outputs alive until their last use: a stronger relaxation",
        source="this project, after Jain et al.",
        strengthened=True,
        **_CHECKMATE,
    ),
)


def in_any_order(form: Searched) -> Searched | None:
    """The form of a formulation that leaves the order open, with the same precedence; None if absent."""
    if isinstance(form, PlanFormulation):
        return form.in_any_order()
    if not form.staged:
        return form
    if not isinstance(form, Formulation) or form.model or not form.limited:
        return None
    precedence = getattr(form, "precedence", None)
    return find_formulation("general", **({} if precedence is None else {"precedence": precedence}))


@cache
def formulations() -> tuple[Formulation, ...]:
    """Return ours, then those of other packages: objects behind entry points of the group `moccasin_mzn.formulations`.

    Raises:
        InputError: an entry point that cannot be loaded, is no formulation, or has a name that is taken.
    """
    found = list(FORMULATIONS)
    for entry in entry_points(group=GROUP):
        try:
            form = entry.load()
        except Exception as error:  # whatever a package of someone else's does
            reason = str(error) or type(error).__name__
            raise InputError(f"entry point {entry.value} of {GROUP}: {reason}") from None
        if not isinstance(form, Formulation):
            raise InputError(f"entry point {entry.value} of {GROUP}: {shown(form)} is no Formulation")
        if form.name in [other.name for other in found]:
            raise InputError(f"entry point {entry.value} of {GROUP}: the name {shown(form.name)} is taken")
        found.append(form)
    return tuple(found)


def find_formulation(name: str, **own: str) -> Formulation:
    """The formulation of this name, with options of its own; those not given have its defaults. Other packages are
    loaded only for names that are not ours, so that a broken one does not matter otherwise.

    Raises:
        InputError: an unknown name, where the message lists the known ones; an option that is unknown or that the
            formulation does not have, or a value that is unknown; a model that cannot be read; see `formulations`.
    """
    known = {form.name: form for form in FORMULATIONS}
    if name not in known:
        known = {form.name: form for form in formulations()}
    if name not in known:
        raise InputError(Page.FORMULATIONS.after(f"unknown formulation {shown(name)}, {one_of(name, known)}"))
    for what, value in own.items():
        if what not in known[name].own_options:
            owners = [form.name for form in known.values() if what in form.own_options]
            hint = f": that is for {' and '.join(owners)}" if owners else ""
            raise InputError(f"{name} has no {what.replace('_', ' ')} {shown(value)}{hint}")
    form = replace(known[name], **own)  # type: ignore[arg-type]
    if form.model:
        included(form.file)
    return form
