"""Random networks with scales of every kind, cut anywhere, some parts computed again: C returns the same."""

from __future__ import annotations

from collections import Counter

import c_programs
import numpy as np
import pytest
from random_int8 import random_network

pytestmark = pytest.mark.skipif(c_programs.compiler is None, reason="no C compiler")
FEW, MANY = 4, 100
"""Random networks, by default and in all; `scripts/fuzz_int8.py` runs any number."""


def judge(seeds: range, folder) -> None:
    found = Counter()
    for seed in seeds:
        (own := folder / str(seed)).mkdir()
        verdict = c_programs.verdict(random_network(np.random.default_rng(seed)), seed, own)
        assert not verdict.startswith("differs"), (seed, verdict)
        found[verdict.split(":")[0]] += 1
    assert found["equal"] >= 0.9 * len(seeds)


def test_schedules_of_parts_put_out_the_same(tmp_path):
    judge(range(FEW), tmp_path)


@pytest.mark.full
def test_many_schedules_of_parts_put_out_the_same(tmp_path):
    judge(range(FEW, MANY), tmp_path)
