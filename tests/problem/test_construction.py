"""The door for constructed schedules: what comes out is a schedule of the instance, whatever comes in."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

import pytest
from few import few
from least_oracle import draw_any, draw_schedule

from moccasin_mzn.base.errors import JudgeError
from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.problem.construction import judged, judged_within
from moccasin_mzn.problem.instance import Instance
from moccasin_mzn.problem.judges.schedules import judge
from moccasin_mzn.problem.stages import first_out_of_stage


@pytest.mark.parametrize("seed", few(range(1000), keep=100))
def test_only_schedules_of_the_instance_come_through(seed):
    rng, graph = random.Random(seed), draw_any(seed, 6)
    sequence = draw_schedule(graph, rng)
    found = judged(graph, sequence, "a rule")
    budget = rng.choice([found.peak, found.peak - 1, found.peak + 1, rng.randint(0, found.peak + 1)])
    most = rng.choice([1, 2, 3, max(Counter(sequence).values())])
    instance = replace(Instance.build(graph, "100%", max_computations=most), budget=max(0, budget))
    for staged in (False, True):
        within = judged_within(instance, sequence, "a rule", staged=staged)
        counts = Counter(sequence)
        fits = judge(graph, sequence, instance.budget).feasible
        fits &= all(counts[v] <= count for v, count in enumerate(instance.max_computations))
        fits &= not staged or first_out_of_stage(instance.order, sequence) is None
        assert (within == found) if fits else (within is None)


@pytest.mark.parametrize("seed", few(range(300), keep=50))
def test_what_is_no_schedule_is_an_error_of_whoever_made_it(seed):
    """A node is missing, or comes before its inputs, or is none."""
    rng, graph = random.Random(seed), draw_any(seed, 6)
    sequence = list(graph.input_order())
    gone = rng.choice(sequence)
    broken = [[v for v in sequence if v != gone], [*sequence, len(sequence)], [*sequence, -1], []]
    for one in broken:
        with pytest.raises(JudgeError, match="^a rule made no schedule: "):
            judged(graph, one, "a rule")


def test_further_outputs_are_moved_to_the_first_ones():
    graph = ComputationGraph(["a", "b", "c"], [1, 1, 0], [1, 1, 2], [], output_of=[None, None, 0])
    found = judged(graph, [0, 1, 2, 0, 1, 2], "a rule")
    assert found.sequence == (0, 2, 1, 0, 2, 1)
    assert (found.peak, found.duration) == (3, 4)
