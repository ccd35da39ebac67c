"""Arithmetic of single integers."""

from __future__ import annotations

from ..builder import Builder
from ..registry import Int, When, relation
from .extremes import maximum_of, negative


@relation("int_plus", value=lambda left, right: left + right)
def int_plus(builder: Builder, left: Int, right: Int, total: Int, when: When) -> None:
    """left + right = total"""
    builder.linear((1, 1, -1), (left, right, total), (0, 0), when)


@relation("int_times", value=lambda left, right: left * right)
def int_times(builder: Builder, left: Int, right: Int, product: Int, when: When) -> None:
    """left * right = product"""
    proto = builder.new(when).int_prod
    builder.write(product, proto.target)
    builder.write_all((left, right), proto.exprs)


@relation("int_abs", value=abs)
def int_abs(builder: Builder, term: Int, size: Int, when: When) -> None:
    """|term| = size"""
    maximum_of(builder, size, [term, negative(term)], when)
