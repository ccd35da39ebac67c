"""Where steps of a fraction of 1 stand for all values of continuous variables.

With all integers and truths fixed, constraints that compare continuous variables with each other, `f - g <= c`, and
with constants have a totally unimodular matrix: if all sides are multiples of a step, so are the vertices, and with
them an optimum of every linear objective, and a solution if there is one. Maxima, minima and elements are choices among
such comparisons. Strict comparisons are none: they leave out vertices.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from math import lcm

from moccasin_mzn.solvers.cpsat.floats.forms import Form
from moccasin_mzn.solvers.cpsat.floats.items import Call, Ranges, Row
from moccasin_mzn.solvers.cpsat.halves import IF_FALSE, IF_TRUE, Half
from moccasin_mzn.solvers.flatzinc.syntax import ContinuousError

ELSEWHERE = "solve with --solver highs or --solver scip"
CHOICES = ("int_max", "int_min", "array_int_maximum", "array_int_minimum", "array_var_int_element", "set_in")
_CLOSED = {"le": IF_TRUE, "eq": IF_TRUE, "set_in": IF_TRUE, "lt": IF_FALSE, "ne": IF_FALSE}
"""Whether a comparison, or its negation, can be said without `<`."""


def refusal(item: Row | Call) -> ContinuousError:
    """For an item that says of a continuous variable what steps cannot."""
    return ContinuousError(f"{item.item.name} of a continuous variable is not supported; {ELSEWHERE}")


def step_of(item: Row | Call, continuous: Set[str], units: Mapping[str, int]) -> int:
    """The number of steps in 1 of which all sides of a constraint on continuous variables are multiples; 1 for other
    constraints. Raises `UnsupportedError` for what is no comparison."""
    if isinstance(item, Row):
        weights = [factor for base, factor in item.form.factors.items() if base in continuous]
        if not weights:
            return 1
        closed = _CLOSED[item.relation] == IF_TRUE if item.condition != "_reif" else True
        if len(weights) > 2 or (len(weights) == 2 and weights[0] != -weights[1]) or not closed:
            raise refusal(item)
        return _sides(item.form.times(1 / weights[0]), continuous, units)
    if not any(base in continuous for form in item.forms() for base in form.factors):
        return 1
    stem = item.name.removesuffix(item.condition)
    whole = all(form.factors[base] == 1 for form in item.forms() for base in form.factors if base in continuous)
    single = all(len(form.factors) == 1 for form in item.forms() if not continuous.isdisjoint(form.factors))
    if stem not in CHOICES or not whole or not single or (item.condition and stem != "set_in"):
        raise refusal(item)
    ends = (end for each in item.arguments if isinstance(each, Ranges) for end in each.ends())
    sides = [_sides(form, continuous, units) for form in item.forms()]
    return lcm(*sides, *(end.denominator for end in ends))


def _sides(form: Form, continuous: Set[str], units: Mapping[str, int]) -> int:
    rest = {base: factor for base, factor in form.factors.items() if base not in continuous}
    return Form(rest, form.constant).per_step(units).denominator()


def fits_direction(item: Row | Call, half: Half | None) -> bool:
    """Is a reified comparison of continuous variables asked for in the one direction that has no `<`?"""
    relation = item.relation if isinstance(item, Row) else "set_in"
    return half is not None and half.direction == _CLOSED[relation]
