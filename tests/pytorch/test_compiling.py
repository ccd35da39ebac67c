"""A budget for `torch.compile`: the measured peak is what was predicted, within the budget, and results stay."""

from __future__ import annotations

import copy
import gc
import itertools
import random
from dataclasses import replace

import pytest
import torch
from execution_nets import NETS
from odd_modules import ODD
from step_networks import NETWORKS
from step_runs import QUICK, made, same, steps, twin
from test_random_sequences import all_again, drawn
from torch import nn
from torch.utils._pytree import tree_leaves

from moccasin_mzn.base.errors import InputError
from moccasin_mzn.problem.budget import Budget
from moccasin_mzn.pytorch import PlanError, backend, compiling
from moccasin_mzn.pytorch.compiling import Partitioner, as_backend
from moccasin_mzn.pytorch.measuring import allocator_peak
from moccasin_mzn.pytorch.measuring import backward as seeded
from moccasin_mzn.pytorch.tracing import Costs
from moccasin_mzn.search.options import Options

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning")
EVERY = {name: factory for name, factory in {**NETWORKS, **ODD}.items() if name not in ("lstm", "gru")}
"""Recurrent layers are no part of what `torch.compile` traces."""
OUTSIDE = {"several_outputs": 96, "equal_outputs": 288, "complex_numbers": 16, "weight_norm": -40,
           "spectrum_of_windows": 24, "slice_writes": 48, "slice_of_what_was_read": 48}  # fmt: skip
"""Bytes that the compiled graph does not have, or no more: gradients of views that autograd makes around it, a number
of complex type, buffers that are given back with the outputs."""
NO_BATCH_UPDATE = "statistics_read"
"""Here the backend "aot_eager" of PyTorch 2.13 updates a running mean, and then reads it as what it was before."""


@pytest.fixture(autouse=True)
def nothing_compiled():
    torch.compiler.reset()
    yield
    torch.compiler.reset()


def compiled(model, budget, **options):
    """The network, compiled, and what its backend has planned."""
    planner = backend(budget, **{**QUICK, **options})
    return torch.compile(model, backend=planner), planner.plans


def peak(step, model, inputs):
    """Measured at the allocator, the second time that a step runs."""

    def one():
        outputs = step(*inputs)
        chosen = [leaf for leaf in tree_leaves(outputs) if isinstance(leaf, torch.Tensor) and leaf.requires_grad]
        seeded(chosen, torch.ones_like)

    found = 0
    for _ in range(2):
        for leaf in (*model.parameters(), *(leaf for leaf in inputs if isinstance(leaf, torch.Tensor))):
            leaf.grad = None
        gc.collect()
        found = allocator_peak(one)
    return found


@pytest.mark.few(6)
@pytest.mark.parametrize("name", EVERY)
def test_compile_backend_recomputation_keeps_results(name):
    """Whatever is computed again, wherever: random sequences that no search would find."""

    class Drawn(Partitioner):
        def schedule(self, step):
            return step.known(self.way(step.problem))

    for way in (lambda problem: drawn(problem, random.Random(1)), all_again):
        model, inputs = made(EVERY[name])
        other, fresh = twin(model, inputs)
        plainly = other if name == NO_BATCH_UPDATE else torch.compile(other, backend="aot_eager")
        wanted = steps(other, plainly, fresh, 2)
        torch.compiler.reset()
        partitioner = Drawn(Budget.of(1.0), Options.of({}))
        partitioner.way = way
        step = torch.compile(model, backend=as_backend(partitioner))
        if name == "decompositions":
            with pytest.raises(PlanError, match="with_effects is no operator on tensors: it cannot be planned"):
                step(*inputs)
            return
        assert same(steps(model, step, inputs, 2), wanted)
        (plan,) = partitioner.plans
        assert plan.recomputations > 0 or way is all_again
        difference = peak(step, model, inputs) - plan.predicted_peak
        assert difference in (0, OUTSIDE.get(name, 0))


def falling(name, small, least, **options):
    """Compile a network for budgets that fall by steps of 0.05 to `least` percent, or to where there is no plan: the
    plans, measured.

    Loss, gradients, buffers and the random state are those of "aot_eager", bit for bit.
    """
    torch.manual_seed(0)
    net = NETS[name]
    model, data = net.make(small), net.data(small)

    def run(planner):
        torch.compiler.reset()
        own = copy.deepcopy(model)
        step = torch.compile(own, backend=planner)
        return steps(own, step, data, 2), peak(step, own, data)

    wanted, _ = run("aot_eager")
    found = []
    for percent in range(100, least - 1, -5):
        planner = backend(percent / 100, seed=0, threads=1, **options)
        try:
            results, measured = run(planner)
        except PlanError:  # what it says is tested below
            return found
        assert same(results, wanted)
        found.append((planner.plans[-1], measured))
    return found


@pytest.mark.full
def test_the_peak_never_rises_when_the_budget_falls():
    check_falling(falling("gpt", small=True, least=80, time_limit=5.0), count=5)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "small"), [("gpt", True), ("llama", True), ("gpt", False), ("llama", False)])
def test_the_peak_never_rises_down_to_the_least_budget(name, small):
    check_falling(falling(name, small, least=5, time_limit=20.0), count=5 if small else 13)


def check_falling(found, count):
    assert len(found) >= count
    for plan, measured in found:
        assert measured == plan.predicted_peak <= plan.budget
    for (_, one), (_, other) in itertools.pairwise(found):
        assert other <= one
    assert found[0][0].recomputations == 0 < found[-1][0].recomputations
    assert found[-1][1] < 0.85 * found[0][1]


def test_a_budget_in_bytes_and_what_is_reported():
    model, inputs = made(NETWORKS["mlp"])
    step, plans = compiled(model, 1.0)
    whole = peak(step, model, inputs)
    torch.compiler.reset()
    step, plans = compiled(model, int(0.8 * whole))
    assert peak(step, model, inputs) <= int(0.8 * whole)
    (plan,) = plans
    assert (plan.budget, plan.unplanned_peak) == (int(0.8 * whole), whole)
    assert plan.recomputations > 0
    assert 0 <= plan.bound <= plan.predicted_increase < 1


def test_random_numbers_are_drawn_once():
    """A search has to compute dropout again, as nothing else is there to drop."""
    torch.manual_seed(0)
    layers = [layer for _ in range(6) for layer in (nn.Linear(32, 32), nn.Dropout(0.5), nn.Hardswish())]
    model, inputs = nn.Sequential(*layers), [torch.randn(256, 32)]
    other, fresh = twin(model, inputs)
    wanted = steps(other, torch.compile(other, backend="aot_eager"), fresh)
    step, plans = compiled(model, 0.6)
    assert same(steps(model, step, inputs), wanted)
    assert plans[0].recomputations > 0
    assert peak(step, model, inputs) == plans[0].predicted_peak


@pytest.mark.parametrize(
    "seed", [0, 2, pytest.param(9, marks=pytest.mark.full), pytest.param(20, marks=pytest.mark.full)]
)
def test_random_numbers_are_drawn_again_whatever_operators_take(monkeypatch, seed):
    """Schedules differ with measured durations, and states of the generator are in none of them."""

    def told(costs, found):
        graph, draw = measured(costs, found).graph, random.Random(seed)
        durations = [max(1, round(duration * draw.uniform(0.5, 2.5))) for duration in graph.durations]
        return replace(found, graph=replace(graph, durations=tuple(durations)))

    measured = Costs.applied
    monkeypatch.setattr(Costs, "applied", told)
    monkeypatch.setattr(compiling, "_KNOWN", {})
    torch.manual_seed(0)
    layers = [layer for _ in range(6) for layer in (nn.Linear(32, 32), nn.Dropout(0.5), nn.Hardswish())]
    model, inputs = nn.Sequential(*layers), [torch.randn(256, 32)]
    step, plans = compiled(model, 0.6)
    assert peak(step, model, inputs) == plans[0].predicted_peak <= plans[0].budget


def test_no_plan_is_an_error_of_the_first_call():
    model, inputs = made(NETWORKS["mlp"])
    step, plans = compiled(model, 0.05, time_limit=5.0)
    with pytest.raises(PlanError, match=r"budget .*: no plan (is within it|was found)") as caught:
        step(*inputs)
    assert "Dynamo" not in type(caught.value).__name__ and not plans
    assert model(*inputs).shape == (96, 5)


def test_changing_shapes_are_reported():
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2))
    step = torch.compile(model, backend=backend(1.0, **QUICK), dynamic=True)
    with pytest.raises(PlanError, match="a plan is for fixed ones: compile with dynamic=False"):
        step(torch.randn(3, 4)).sum().backward()


def test_every_shape_and_mode_has_a_plan_of_its_own():
    model, (x,) = made(NETWORKS["mlp"])
    planner = backend(0.8, **QUICK)
    step = torch.compile(model, backend=planner, dynamic=False)
    for given, train in ((x, True), (x[:50], True), (x, False)):
        model.train(train)
        assert peak(step, model, [given]) <= planner.plans[-1].budget
    assert len({plan.budget for plan in planner.plans}) == 3


def test_without_gradients_it_runs_as_it_is():
    model, inputs = made(NETWORKS["resnet"])
    model.eval()
    step, plans = compiled(model, 0.5)
    with torch.no_grad():
        assert torch.equal(step(*inputs), model(*inputs))
    assert not plans


def test_accumulated_and_scaled_gradients():
    model, inputs = made(NETWORKS["unet"])
    other, fresh = twin(model, inputs)
    step, plans = compiled(model, 0.8)
    for call, own, given in ((step, model, inputs), (other, other, fresh)):
        for part in (0.25, 3.0):
            (call(*given).square().mean() * part).backward()
        assert all(parameter.grad is not None for parameter in own.parameters())
    assert plans[0].recomputations > 0
    pairs = zip(model.parameters(), other.parameters(), strict=True)
    assert all(torch.equal(one.grad, its.grad) for one, its in pairs)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"budget": 2.0}, "budget 2"),
        ({"budget": 0.5, "durations": "guessed"}, "durations 'guessed': expected one of measured, flop"),
        ({"budget": 0.5, "time_limit": -1.0}, "time limit"),
    ],
)
def test_compile_backend_rejects_wrong_budgets(given, told):
    with pytest.raises(InputError, match=told):
        backend(**given)


def test_by_flop_there_is_nothing_to_time():
    model, inputs = made(NETWORKS["mlp"])
    step, plans = compiled(model, 0.8, durations="flop")
    assert peak(step, model, inputs) == plans[0].predicted_peak
    assert plans[0].recomputations > 0
