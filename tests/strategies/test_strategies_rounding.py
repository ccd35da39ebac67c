"""Checkmate's LP rounding ends when time is up, also while MiniZinc compiles its model."""

from __future__ import annotations

import psutil
import pytest

from moccasin_mzn.graphs.generators.families import chain
from moccasin_mzn.problem.instance import Instance
from moccasin_mzn.strategies.lp_rounding import lp_rounding


@pytest.fixture
def instance():
    return Instance.build(chain(10, 1), "0.9", max_computations="unlimited")


def test_a_candidate_for_each_threshold(instance):
    assert len(list(lp_rounding(instance, lambda: False))) == 9


def test_time_that_is_up_ends_the_compilation(instance):
    seen = []

    def stop():
        seen.extend(process.pid for process in psutil.Process().children() if "minizinc" in process.name())
        return bool(seen)

    assert list(lp_rounding(instance, stop)) == []
    assert len(set(seen)) == 1, "MiniZinc was started again"
    assert not psutil.pid_exists(seen[0])
