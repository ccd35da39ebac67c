"""Plans with slow memory: what is written there and read back is what it was, and both peaks are as predicted."""

# ruff: noqa: E402 - nothing can be imported before it is known that PyTorch is there

from __future__ import annotations

import random
from dataclasses import replace

import pytest

torch = pytest.importorskip("torch", minversion="2.6")

from odd_modules import ODD
from step_networks import NETWORKS
from step_runs import backward, excess, made, planned, same, steps, twin

from moccasin_mzn.errors import InputError
from moccasin_mzn.extensions.paging.build import LOCAL, SLOW
from moccasin_mzn.problem.plan import Action
from moccasin_mzn.pytorch import Plan, PlanError
from moccasin_mzn.pytorch.computations import Computation
from moccasin_mzn.pytorch.copy_costs import measured_costs
from moccasin_mzn.pytorch.liveness import peaks
from moccasin_mzn.pytorch.slow_memory import Slow, read_back, settled, slow_peak, write_out

EVERY = {**NETWORKS, **ODD}
FREE = {"out_time": 0}
BUDGETS = {"mlp": 0.35, "resnet": 0.4, "gpt": 0.4, "unet": 0.5, "llama": 0.4, "lstm": 0.5}
"""Below what recomputation alone was seen to reach."""


@pytest.mark.parametrize("name", NETWORKS)
def test_three_steps_are_those_without_a_plan(name):
    model, inputs = made(NETWORKS[name])
    other, fresh = twin(model, inputs)
    found = planned(model, inputs, BUDGETS[name], paging=FREE)
    assert found.copies > 0 and found.predicted_peak <= found.budget
    assert verified(found, inputs)
    step = found.module()
    assert same(steps(model, step, inputs), steps(other, other, fresh))
    assert excess(found, step, inputs) == 0


def verified(found, inputs):
    """Is all equal, and are both peaks as predicted?"""
    told = found.verify(inputs)
    assert told.predicted_slow_peak == found.predicted_slow_peak
    return told.equal and told.storage_peak == told.predicted_peak and told.slow_peak == told.predicted_slow_peak


def drawn(problem, chance):
    """The input order, with what has been computed before copied there and back, or computed again, at random."""
    plan, there, slow = [], [], []
    for node in problem.graph.input_order():
        for _ in range(chance.choice([0, 0, 1, 2, 3]) if there else 0):
            one, way = chance.choice(there), chance.randrange(3)
            if way == 0 and problem.most[one]:
                plan.append(Action(one))
            elif way == 1 and slow:
                plan.append(Action(chance.choice(slow), LOCAL, SLOW))
            else:
                plan.append(Action(one, SLOW, LOCAL))
                slow.append(one)
        plan.append(Action(node))
        if isinstance(problem.meanings[node], Computation):
            there.append(node)
    return tuple(plan)


def all_copied(problem):
    """The input order, everything written as soon as it is computed, and read back each time before it is read."""
    plan, copied = [], set()
    for node in problem.graph.input_order():
        plan += [Action(read, LOCAL, SLOW) for read in problem.graph.predecessors[node] if read in copied]
        plan.append(Action(node))
        if isinstance(problem.meanings[node], Computation):
            plan.append(Action(node, SLOW, LOCAL))
            copied.add(node)
    return tuple(plan)


def with_actions(whole, actions):
    return replace(
        whole, actions=actions, sequence=tuple(action.node for action in actions if action.source is None),
        peaks=peaks(whole.traced.linear(actions)),
    )  # fmt: skip


@pytest.mark.parametrize("name", EVERY)
def test_what_is_copied_changes_nothing(name):
    model, inputs = made(EVERY[name])
    whole = planned(model, inputs, 1.0)
    other, fresh = twin(model, inputs)
    wanted = steps(other, other, fresh, 2)
    problem = whole.traced.problem
    for actions in (drawn(problem, random.Random(2)), drawn(problem, random.Random(3)), all_copied(problem)):
        _, inputs = twin(model, inputs)
        found = with_actions(whole, actions)
        before = {key: value.clone() for key, value in model.state_dict().items()}
        step = found.module()
        assert same(steps(model, step, inputs, 2), wanted)
        assert excess(found, step, inputs) == 0
        assert slow_peak(lambda step=step, inputs=inputs: backward(step(*inputs))) == found.predicted_slow_peak
        model.load_state_dict(before)
    assert found.predicted_slow_peak > 0  # all copied
