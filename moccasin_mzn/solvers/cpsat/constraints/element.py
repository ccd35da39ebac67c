"""Array access by a variable index, counted from 1 or from a given one; an index outside the array is false."""

from __future__ import annotations

from collections.abc import Sequence

from moccasin_mzn.solvers.cpsat.builder import Builder, constant
from moccasin_mzn.solvers.cpsat.registry import Int, Ints, Par, Pars, When, relation


def _at(index: int, values: Sequence[int]) -> int:
    """The element at an index that may lie outside, where any value does."""
    return values[min(max(index, 1), len(values)) - 1] if values else 0


@relation(
    "array_var_int_element",
    bools=dict.fromkeys(("array_var_bool_element", "array_bool_element"), ("Int", "Bools", "Bool")),
    value=_at,
)
def array_var_int_element(builder: Builder, index: Int, terms: Ints, value: Int, when: When) -> None:
    """terms[index] = value"""
    if not terms:
        return builder.false(when)
    builder.linear((1,), (index,), (1, len(terms)), when)
    proto = builder.new(when).element
    builder.write(index.plus(-1), proto.linear_index)
    builder.write(value, proto.linear_target)
    builder.write_all(terms, proto.exprs)


@relation("array_int_element", value=_at)
def array_int_element(builder: Builder, index: Int, values: Pars, value: Int, when: When) -> None:
    """values[index] = value"""
    array_var_int_element(builder, index, [constant(number) for number in values], value, when)


@relation(
    "array_var_int_element_from",
    bools={"array_var_bool_element_from": ("Par", "Int", "Bools", "Bool")},
    value=lambda first, index, values: _at(index - first + 1, values),
)
def array_var_int_element_from(builder: Builder, first: Par, index: Int, terms: Ints, value: Int, when: When) -> None:
    """terms[index] = value, counted from `first`"""
    array_var_int_element(builder, index.plus(1 - first), terms, value, when)
