"""How often values occur: count, among, global cardinality, number of values."""

from __future__ import annotations

from ..builder import Builder
from ..registry import Ints, When, relation


@relation("fzn_all_different_int", holds=lambda values: len(set(values)) == len(values))
def all_different(builder: Builder, terms: Ints, when: When) -> None:
    """no two terms are equal"""
    builder.write_all(terms, builder.new(when).all_diff.exprs)
