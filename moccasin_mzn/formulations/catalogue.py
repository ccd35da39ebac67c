"""The formulations: one object each, with all that is told of it. Lists, help, comparisons and tables read it here."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from importlib.metadata import entry_points

from moccasin_mzn.doc_links import Page
from moccasin_mzn.errors import InputError, shown
from moccasin_mzn.files import JsonObject
from moccasin_mzn.formulations.checkmate import Checkmate
from moccasin_mzn.formulations.formulation import Formulation, Growth, Variant
from moccasin_mzn.formulations.moccasin import Moccasin
from moccasin_mzn.formulations.models import included
from moccasin_mzn.formulations.plan_formulation import PlanFormulation
from moccasin_mzn.formulations.searched import Searched

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
    """The form of a formulation that leaves the order open, with the same precedence; None: there is none."""
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
    """Ours, then those of other packages: objects behind entry points of the group `moccasin_mzn.formulations`.

    Raises:
        InputError: an entry point that cannot be loaded, is no formulation, or has a name that is taken.
    """
    found = list(FORMULATIONS)
    for entry in entry_points(group=GROUP):
        try:
            form = entry.load()
        except Exception as error:  # whatever a package of someone else's does
            told = str(error) or type(error).__name__
            raise InputError(f"entry point {entry.value} of {GROUP}: {told}") from None
        if not isinstance(form, Formulation):
            raise InputError(f"entry point {entry.value} of {GROUP}: {shown(form)} is no Formulation")
        if form.name in [other.name for other in found]:
            raise InputError(f"entry point {entry.value} of {GROUP}: the name {shown(form.name)} is taken")
        found.append(form)
    return tuple(found)


def find_formulation(name: str, **own: str) -> Formulation:
    """The formulation of this name, with options of its own; those not given have its defaults. Other packages are
    asked for what is not ours only, so that a broken one is in nobody's way.

    Raises:
        InputError: an unknown name, where the message lists the known ones; an option that is unknown or that the
            formulation does not have, or a value that is unknown; a model that cannot be read; see `formulations`.
    """
    known = {form.name: form for form in FORMULATIONS}
    if name not in known:
        known = {form.name: form for form in formulations()}
    if name not in known:
        raise InputError(
            Page.FORMULATIONS.after(f"unknown formulation {shown(name)}, expected one of {', '.join(known)}")
        )
    for what, value in own.items():
        if what not in known[name].own_options:
            owners = [form.name for form in known.values() if what in form.own_options]
            hint = f": that is for {' and '.join(owners)}" if owners else ""
            raise InputError(f"{name} has no {what.replace('_', ' ')} {shown(value)}{hint}")
    form = replace(known[name], **own)  # type: ignore[arg-type]
    if form.model:
        included(form.file)
    return form
