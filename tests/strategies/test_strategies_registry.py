"""All strategies by name."""

from __future__ import annotations

import pytest

from moccasin_mzn.base.errors import InputError
from moccasin_mzn.strategies import find_strategy, strategies


def test_names_find_strategies():
    names = [strategy.name for strategy in strategies()]
    assert len(set(names)) == len(names)
    assert [find_strategy(name).name for name in names] == names
    assert {"keep-all", "recompute-all", "chen-greedy-ap", "griewank"} <= set(names)


def test_strategies_say_what_they_are():
    for strategy in strategies():
        for said in (strategy.name, strategy.title, strategy.source, strategy.guarantee):
            assert said and said == said.strip() and "\n" not in said


def test_an_unknown_name_is_answered_with_those_there_are():
    with pytest.raises(
        InputError, match=r"^strategy 'chen' is unknown; there are keep-all, recompute-all, chen-sqrtn-ap"
    ):
        find_strategy("chen")
