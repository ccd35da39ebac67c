"""What a time limit covers: signs of life at once, operators timed as far as there is time, steps timed at the end."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from operator import length_hint
from types import SimpleNamespace

import pytest
import torch
from step_networks import NETWORKS
from step_runs import made, planned
from torch import nn

from moccasin_mzn.api import driving
from moccasin_mzn.api.driving import Drive, Progress
from moccasin_mzn.base.clock import Deadline
from moccasin_mzn.problem.instance import Instance
from moccasin_mzn.problem.judges.schedules import simulate
from moccasin_mzn.pytorch import NoPlanError, Plan, planning, tracing
from moccasin_mzn.pytorch.batches import _Trials
from moccasin_mzn.pytorch.call import Step, Structure
from moccasin_mzn.pytorch.dry_runs import dry_run
from moccasin_mzn.pytorch.errors import NoTimeError
from moccasin_mzn.pytorch.infeasibility import least_in_time
from moccasin_mzn.pytorch.measuring import peak_and_end, peaks_and_ends
from moccasin_mzn.pytorch.operator_costs import OperatorCosts
from moccasin_mzn.pytorch.operator_process import Worker
from moccasin_mzn.pytorch.starts import least_start
from moccasin_mzn.pytorch.steps import NoTurnsError, StepTimes, _in_turns, step_times
from moccasin_mzn.pytorch.tracing import within
from moccasin_mzn.search.options import Options


@pytest.fixture
def resnet():
    return made(NETWORKS["resnet"])


def test_the_first_sign_of_life_comes_before_the_network_is_traced(resnet):
    model, inputs = resnet
    heard = []
    began = time.monotonic()
    planned(model, inputs, 0.9, on_progress=lambda progress: heard.append((time.monotonic() - began, progress)))
    seconds, first = heard[0]
    assert seconds < 2.0 and first.source == "tracing the network" and first.value is None
    assert any(progress.value is not None for _, progress in heard)


def test_what_is_not_timed_is_estimated_and_its_memory_is_known(resnet, monkeypatch):
    monkeypatch.setattr(planning, "MEASURED_COSTS", OperatorCosts())
    monkeypatch.setattr(tracing, "MEASURING_SHARE", 0.0)
    model, inputs = resnet
    found = planned(model, inputs, 0.9)
    assert found.estimated and not found.traced.costs.estimated
    assert f"the time of {len(found.estimated)} operators: the time limit is too short" in found.report()
    assert max(found.graph.workspaces) > 0 and min(found.graph.durations) >= 0
    check = found.verify(inputs)
    assert check.equal and check.peak <= check.predicted_peak <= found.budget


def test_a_later_plan_times_what_was_not(resnet):
    model, inputs = resnet
    step = planned(model, inputs, 1.0).traced
    nodes = [node for node in step.joint.nodes if "convolution" in str(node.target)]
    costs = OperatorCosts()
    timed = [costs.of(node) for node in nodes]
    untimed = OperatorCosts({key: replace(cost, measured=False) for key, cost in costs.known.items()})
    untimed.forget_failures()
    assert not untimed.known and all(cost.measured and cost.nanoseconds > 1 for cost in timed)


def test_memory_of_many_calls_is_that_of_each():
    x = torch.rand(64, 64)

    def fail():
        raise ValueError("mine")

    calls = [lambda: x @ x, fail, lambda: (x + 1).sum(), lambda: [x + at for at in range(3)], lambda: None]
    expected = [None if call is fail else peak_and_end(call) for call in calls]
    assert peaks_and_ends(iter(calls)) == expected
    assert expected[0] == (64 * 64 * 4, 64 * 64 * 4) and expected[2][0] > expected[2][1] and expected[4] == (0, 0)


def test_the_increase_is_measured_where_the_step_is_run_and_said_where_it_differs(resnet, tmp_path):
    model, inputs = resnet
    found = planned(model, inputs, 0.8)
    assert found.measured_increase is not None
    far, near = (replace(found, measured_increase=found.predicted_increase + more) for more in (0.2, 0.01))
    assert f"but measured {100 * far.measured_increase:+.2f} %" in far.report() and "but measured" not in near.report()
    far.save(tmp_path / "plan.json")
    assert Plan.load(tmp_path / "plan.json", model).measured_increase == far.measured_increase


@pytest.mark.parametrize("elapsed", [0.0, 5.0, 15.0, 19.9, 30.0])
@pytest.mark.parametrize("tracing", [0.0, 3.0, 15.0, 60.0])
def test_the_search_ends_within_the_limit_and_leaves_time_for_what_follows(elapsed, tracing):
    deadline = Deadline(20.0, time.monotonic() - elapsed)
    limit = planning._search_seconds(deadline, tracing)
    assert elapsed <= limit <= max(20.0 - 0.1 * (20.0 - elapsed) / 2, deadline.elapsed())
    assert planning._search_seconds(Deadline(), tracing) is None


class Counted(nn.Module):
    """Layers that count how often they are called."""

    def __init__(self, layers=4):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(16, 16) for _ in range(layers))

    def forward(self, x):
        for layer in self.layers:
            next(COUNTED)
            x = layer(x).relu()
        return x.sum()


_MANY = 10**9
COUNTED = iter(range(_MANY))
"""It counts without Python: plans refuse a network that counts, as they would not."""


def calls_since(before=0):
    return _MANY - length_hint(COUNTED) - before


@pytest.fixture
def counted():
    return Counted(), [torch.rand(8, 16)]


@pytest.fixture
def late(monkeypatch):
    """Calls of `plan` have begun a hundred seconds ago."""
    monkeypatch.setattr(planning, "time", SimpleNamespace(monotonic=lambda: time.monotonic() - 100.0))


def test_tracing_ends_with_the_limit_and_says_so(counted, late):
    (model, inputs), before = counted, calls_since()
    with pytest.raises(NoTimeError, match=r"tracing the network took 1[0-9.]+ s of the 30 s of the time limit"):
        planned(model, inputs, 0.5)
    assert calls_since(before) == 1  # the operator after the limit is not called
    before = calls_since()
    assert planned(model, inputs, 1.0, time_limit=None).predicted_peak
    assert calls_since(before) > len(model.layers)


def test_the_limit_is_for_the_dry_run_of_an_estimate_too(counted):
    (model, inputs), before = counted, calls_since()
    arguments, tensors = Structure.of_call(inputs, None)
    limit = within(Deadline(1.0, time.monotonic() - 5.0), "running the step without memory")
    with pytest.raises(NoTimeError, match="running the step without memory took [0-9.]+ s of the 1 s"):
        dry_run(Step(model, None), arguments, tensors, None, "cpu", None, limit)
    assert calls_since(before) == 1


def test_no_step_is_run_when_time_is_over(counted):
    model, inputs = counted
    found = planned(model, inputs, 1.0)
    before = calls_since()
    over = Deadline(0.0)
    assert step_times(found.traced, found.runtime(), 0.1, inputs, {}, eager=True, deadline=over) == StepTimes()
    with pytest.raises(NoTurnsError):
        _in_turns(lambda: None, {"eager": model}, "cpu", over)
    assert calls_since(before) == 0 and planning._timed(found, inputs, {}, over) is found


def test_a_step_that_takes_longer_than_what_is_left_is_not_run(counted):
    model, inputs = counted
    found = planned(model, inputs, 1.0)
    slow = replace(found.graph, durations=tuple(10**12 for _ in found.graph.nodes))
    traced = replace(found.traced, problem=replace(found.traced.problem, graph=slow))
    before = calls_since()
    assert step_times(traced, found.runtime(), 0.1, inputs, {}, eager=True, deadline=Deadline(60.0)) == StepTimes()
    assert calls_since(before) == 0


def test_schedules_to_begin_with_are_made_when_time_is_over(resnet):
    model, inputs = resnet
    problem = planned(model, inputs, 1.0).traced.problem
    graph, over = problem.graph, Deadline(0.0)
    high = simulate(graph, graph.input_order()).peak
    least = least_start(problem, 2, limit=over)
    assert simulate(graph, least).peak <= high
    some = least_in_time(Instance.build(graph, "100%"), Options(), over, known=least)
    assert set(some.sequences) <= {least, tuple(graph.input_order())}


def test_what_is_impossible_is_said_before_anything_is_measured(resnet, monkeypatch):
    def asked(*_):
        raise AssertionError("operators are measured")

    monkeypatch.setattr(planning, "MEASURED_COSTS", OperatorCosts())
    monkeypatch.setattr(Worker, "measured", asked)
    model, inputs = resnet
    for budget in ("1KiB", 0.01):
        with pytest.raises(NoPlanError, match=r"no plan is within it, it takes at least .* proven without a search"):
            planned(model, inputs, budget)


def test_a_budget_at_what_is_proven_is_searched_for(resnet):
    """The proof without a search is none of budgets that a plan is within."""
    model, inputs = resnet
    found = planned(model, inputs, "least", time_limit=20.0)
    assert planned(model, inputs, found.predicted_peak).predicted_peak <= found.predicted_peak


def test_signs_of_life_come_while_nothing_is_new_one_at_a_time(monkeypatch):
    monkeypatch.setattr(driving, "SIGN_SECONDS", 0.02)
    heard, inside = [], []

    def hear(progress):
        assert not inside
        inside.append(progress)
        heard.append(progress)
        time.sleep(0.001)
        inside.pop()

    drive, begin = Drive("test", hear), time.monotonic()
    with drive.signs_of_life(begin):
        drive.begins("tracing", begin)
        drive.report(Progress(0.0, 7, 3, 11, (1, 2)))
        drive.begins("measuring", begin)
        for _ in range(3000):
            if len(heard) > 8:
                break
            drive.report(heard[-1])
            time.sleep(0.01)
    count = len(heard)
    assert count > 8 and heard[0].source == "tracing" and heard[0].value is None
    assert {(each.source, each.value, each.bound, each.nodes) for each in heard[2:]} == {("measuring", 7, 3, None)}
    time.sleep(0.1)
    assert len(heard) == count


def test_a_sign_of_life_may_end_the_search_and_its_error_is_raised(monkeypatch):
    monkeypatch.setattr(driving, "SIGN_SECONDS", 0.02)
    begin = time.monotonic()
    for error in (StopIteration(), ValueError("mine"), KeyboardInterrupt()):
        main = threading.get_ident()

        def hear(_, error=error, main=main):
            if threading.get_ident() != main:
                raise error

        drive = Drive("test", hear)
        with drive.signs_of_life(begin):
            for _ in range(3000):
                if drive.over():
                    break
                time.sleep(0.01)
        assert drive.why == "on_progress"
        if isinstance(error, ValueError):
            with pytest.raises(ValueError, match="mine"):
                drive.ended(5, False)
        else:  # an interrupt keeps the best answer
            assert drive.ended(5, False) == 5


def test_when_time_is_over_no_more_batches_are_tried():
    model = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8))

    def rows(batch):
        return [torch.rand(batch, 8)]

    def trials(elapsed):
        deadline = Deadline(1000.0, time.monotonic() - elapsed)
        step = Step(model, lambda out: out.square().mean())
        return _Trials(step, rows, 1 << 30, None, "returned", Options(), deadline)

    some = trials(500.0)  # more than the part for batches without workspaces
    best, above = some.bisected(1 << 20)
    assert (best.batch, above.batch, some.tried) == (1, 2, [1])
    some.measured = True
    best, _ = some.confirmed(best, 1 << 20)
    made = some.plan_of(best.batch)
    assert made.verify(rows(best.batch)).equal and made.predicted_peak <= 1 << 30
    with pytest.raises(NoTimeError):
        trials(2000.0).bisected(1 << 20)
