"""Compiled code: its checks of indices, what may enter it, and random runs of all of it."""

import os
import random
import subprocess
import sys

import numpy as np
import pytest
from numba import config
from script_loading import load_script

from moccasin_mzn.heuristics.free_order import state as free
from moccasin_mzn.heuristics.staged import state as staged
from moccasin_mzn.machine.paging.search import problem_of, set_of
from moccasin_mzn.machine.platforms import PagingCosts, paging_platform
from moccasin_mzn.problem.instance import Instance
from moccasin_mzn.problem.plan_problem import PlanProblem
from moccasin_mzn.problem.platform import plan_of_sequence

fuzz = load_script("fuzz_compiled")

KERNEL = """
import sys
import numpy as np
from moccasin_mzn.heuristics.compiling import compiled

@compiled
def entry(row, at):
    return row[at]

@compiled
def outer(row, at):
    row[0] += entry(row, at)
    return row[0]

try:
    outer(np.arange(3), int(sys.argv[1]))
except IndexError:
    print("refused")
print(sum(entry.stats.cache_hits.values()) + sum(outer.stats.cache_hits.values()))
"""


@pytest.mark.full
def test_indices_are_checked_where_that_is_asked_for_though_code_without_checks_is_kept(tmp_path):
    script = tmp_path / "kernel.py"
    script.write_text(KERNEL)

    def printed(at, checked):
        environment = {**os.environ, "NUMBA_BOUNDSCHECK": checked}
        return subprocess.check_output([sys.executable, script, str(at)], env=environment, text=True).split()

    def kept():
        return {path.name: path.read_bytes() for path in (tmp_path / "__pycache__").glob("*.nb[ci]")}

    assert printed(2, "0") == ["0"]
    before = kept()
    assert before
    assert printed(2, "1") == ["0"] and int(printed(2, "1")[0]) > 0
    assert printed(3, "1")[0] == "refused"
    assert kept() == before
    assert int(printed(2, "0")[0]) > 0


@pytest.mark.skipif(bool(config.BOUNDSCHECK), reason="indices are checked in this process")
def test_random_runs_are_refused_without_the_checks():
    with pytest.raises(RuntimeError, match="set NUMBA_BOUNDSCHECK=1"):
        fuzz.check_all_indices()


@pytest.fixture
def few_moves(monkeypatch):
    for module, name, value in fuzz.few_moves():
        monkeypatch.setattr(module, name, value)


@pytest.mark.full
def test_random_runs_of_every_kind_are_right(few_moves):
    told = []
    tallies = fuzz.run(list(fuzz.RUNS), 60, 0, told.append)
    assert told == []
    assert {name: tally.errors for name, tally in tallies.items()} == dict.fromkeys(fuzz.RUNS, 0)
    assert sum(tally.runs for tally in tallies.values()) == 60 and all(tally.runs for tally in tallies.values())


def test_a_run_that_fails_is_reported_and_counted(monkeypatch):
    def failing(draw):
        raise IndexError(str(draw.random()))

    monkeypatch.setitem(fuzz.RUNS, "stages", (failing, 1))
    told = []
    assert fuzz.run(["stages"], 2, 3, told.append)["stages"].errors == 2
    assert [text.partition(":")[0] for text in told] == ["run 0 of seed 3, stages", "run 1 of seed 3, stages"]


@pytest.fixture
def instance():
    question = (fuzz.draw_question(random.Random(seed), True).instance for seed in range(1000))
    return next(i for i in question if len(staged.problem_of(i).slot_node) > 3 and len(i.order) > 5)


def test_only_recomputations_in_stages_after_the_first_computation_enter(instance):
    problem = staged.problem_of(instance)
    n, nothing = len(instance.order), np.full(len(problem.slot_node), staged.NONE, np.int64)
    for stage in (0, n, n + 7, -2):
        wrong = nothing.copy()
        wrong[0] = stage
        with pytest.raises(ValueError, match="recomputations in stages that are none"):
            staged.enter(problem, staged.empty_state(problem), wrong)
    with pytest.raises(ValueError, match="recomputations in stages that are none"):
        staged.enter(problem, staged.empty_state(problem), nothing[:-1])
    staged.enter(problem, staged.empty_state(problem), nothing)


def test_a_node_enters_once_in_a_stage():
    graph = fuzz.ComputationGraph(range(4), [1] * 4, [1] * 4, [(0, 1), (0, 3), (1, 2), (2, 3)])
    problem = staged.problem_of(Instance.build(graph, 1, max_computations=3))
    twice = np.where(problem.slot_node == 0, 3, staged.NONE)
    assert (problem.slot_node == 0).sum() == 2
    with pytest.raises(ValueError, match="computed twice in a stage"):
        staged.enter(problem, staged.empty_state(problem), twice)


def test_only_sequences_of_all_nodes_after_their_inputs_enter(instance):
    problem = free.problem_of(instance)
    slots = free.slots_of(instance, problem, instance.order)
    reader = int(np.flatnonzero(np.diff(problem.pred_ptr))[0])
    moved = np.concatenate([slots[reader : reader + 1], np.delete(slots, reader)])
    for wrong in (np.append(slots, len(problem.slot_node)), np.append(slots, -1), np.append(slots, slots[0])):
        with pytest.raises(ValueError, match="used twice"):
            free.enter(problem, free.empty_state(problem), wrong)
    for wrong in (slots[:-1], slots[1:], moved):
        with pytest.raises(ValueError, match="a node is not computed, or is before one of its inputs"):
            free.enter(problem, free.empty_state(problem), wrong)


def test_sequences_and_plans_that_leave_the_stages_are_no_sets(instance):
    instance = Instance(instance.graph, instance.order, instance.budget, instance.max_computations)
    order, problem = instance.order, staged.problem_of(instance)
    paging = PlanProblem(instance, paging_platform(instance.graph, instance.budget, PagingCosts()))
    for sequence, stage in ((order[:-1], len(order) - 1), (order[::-1], 0), ((*order[1:], order[0]), 0), ((), 0)):
        with pytest.raises(ValueError, match=f"^stage {stage} of the input order does not end"):
            staged.stages_of(instance, problem, sequence)
        with pytest.raises(ValueError, match=f"^stage {stage} of the input order does not end"):
            set_of(instance, problem_of(paging), plan_of_sequence(sequence))
