"""The backward pass in other orders: the same results, less memory, and what must keep its order keeps it."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
import torch
from few import few
from odd_modules import ODD, number
from step_networks import NETWORKS
from step_runs import excess, made, planned, same, steps, twin
from torch import nn

from moccasin_mzn.problem.judges.schedules import simulate
from moccasin_mzn.pytorch import searching
from moccasin_mzn.pytorch.computations import Root
from moccasin_mzn.pytorch.errors import NoPlanError, PlanError
from moccasin_mzn.pytorch.infeasibility import proven_at_once, proven_however_moved, unlimited
from moccasin_mzn.pytorch.instructions import peaks
from moccasin_mzn.pytorch.integrations import Plans
from moccasin_mzn.pytorch.moved_gradients import moved
from moccasin_mzn.pytorch.plans import Plan
from moccasin_mzn.pytorch.problem import Accumulation, Cut
from moccasin_mzn.pytorch.tracing import meant

EVERY = {**NETWORKS, **ODD}


def at_random(problem, chance):
    """Any order in which what is not movable keeps its order, and the rest of the backward pass is behind the cut."""
    graph, order = problem.graph, problem.graph.input_order()
    firm = [v for v in order if not problem.movable[v]]
    cut = next(v for v in order if isinstance(problem.meanings[v], Cut))
    found, waiting, done = list[int](), [v for v in order if problem.movable[v]], set()
    while firm or waiting:
        ready = [v for v in waiting if cut in done and all(u in done for u in graph.predecessors[v])]
        ready += [v for v in firm[:1] if all(u in done for u in graph.predecessors[v])]
        v = chance.choice(ready)
        (waiting if problem.movable[v] else firm).remove(v)
        found.append(v)
        done.add(v)
    return tuple(found)


def again(order, most, chance):
    """An order with what has been computed before computed again at random."""
    sequence, before = list[int](), list[int]()
    for v in order:
        sequence += [chance.choice(before) for _ in range(chance.choice([0, 0, 1])) if before]
        sequence.append(v)
        before += [v] if most[v] else []
    return tuple(sequence)


def sequences(problem, chance):
    """An order of the backward pass without recomputation, and one with it."""
    one, other = at_random(problem, chance), at_random(problem, chance)
    return one, again(other, problem.most, chance)


def with_sequence(whole, sequence):
    return replace(whole, sequence=sequence, peaks=peaks(whole.traced.linear(sequence)))


@pytest.mark.parametrize(
    ("name", "gradients"), few([(name, each) for name in EVERY for each in ("returned", "accumulated")], keep=20)
)
def test_the_backward_pass_in_any_order_gives_the_same(name, gradients):
    model, inputs = made(EVERY[name])
    try:
        whole = planned(model, inputs, "1TiB", gradients=gradients, durations="flop", workspaces="none")
    except PlanError:
        assert gradients == "accumulated"
        return
    problem = whole.traced.problem
    assert any(problem.movable)
    for sequence in sequences(problem, random.Random(name)):
        (other, fresh), (_, own) = twin(model, inputs), twin(model, inputs)
        wanted = steps(other, other, fresh, 2)
        before = {key: value.clone() for key, value in model.state_dict().items()}
        assert same(steps(model, with_sequence(whole, sequence).module(), own, 2), wanted)
        model.load_state_dict(before)


class Drawing(torch.autograd.Function):
    """Draws random numbers in the backward pass, and overwrites what it has made there."""

    @staticmethod
    def forward(ctx, x, factor):
        ctx.save_for_backward(x, factor)
        return x * factor

    @staticmethod
    def backward(ctx, gradient):
        x, factor = ctx.saved_tensors
        made = gradient * torch.rand_like(gradient)
        before = made * x
        made.mul_(factor).add_(before)
        return made, before + made.cos()


def shared_gradient(self, x):
    """The gradient of two parameters is the same tensor, which something else reads later; one is read elsewhere."""
    return ((x @ self.c).tanh() + self.a + self.b + self.a * 0.3).tanh()


def read_often(self, x):
    y = x
    for _ in range(3):
        y = (y @ self.a).tanh() + self.bias
    return y @ self.a.t() + self.a.sin() * self.bias + nn.functional.embedding(torch.tensor([0, 0, 1, 3, 3, 3]), self.a)


def drawn_backward(self, x):
    y = Drawing.apply(nn.functional.dropout(x @ self.a, 0.5), self.b)
    return Drawing.apply(y @ self.c, self.b) + Drawing.apply(x.sin() @ self.c, self.a) + self.a


def overwritten(self, x):
    y = (x @ self.a).mul_(2).add_(self.b)
    z = y + self.c
    w = z * 2
    z.mul_(self.bias)
    return z.mul_(2).sin() + self.c + w * self.b + y.add(1).tanh()


def hooks_inside(self, x):
    y = x @ self.a
    y.register_hook(lambda gradient: gradient * 2 + x.detach())
    z = y.tanh()
    z.register_hook(lambda gradient: gradient * gradient)
    return z @ self.a + self.b


def statistics(self, x):
    return self.norm(self.norm((x @ self.a).relu_()) @ self.b) @ self.a


FORWARD = [shared_gradient, read_often, drawn_backward, overwritten, hooks_inside, statistics]


class Forward(nn.Module):
    """A forward pass with some parameters and a norm."""

    def __init__(self, function):
        super().__init__()
        torch.manual_seed(1)
        self.a, self.b, self.c = (nn.Parameter(torch.randn(6, 6) / 3) for _ in range(3))
        self.bias, self.function = nn.Parameter(torch.randn(6)), function
        self.norm = nn.BatchNorm1d(6)

    def forward(self, x):
        return self.function(self, x)


def loop(model, call, x, kind):
    """Backward passes in a loop: into a `.grad` that is there, with hooks of parameters, an optimizer in them."""
    torch.manual_seed(7)
    parameters, noted, handles = dict(model.named_parameters()), list[object](), list[object]()
    for at, each in enumerate(parameters.values()):
        each.grad = None if kind == "hooks" and at % 2 else torch.full_like(each, at / 3 + 0.1)
        if kind == "hooks":
            handles.append(each.register_hook(lambda gradient: gradient * 0.7 + 0.01))
        elif kind == "optimizer":

            def update(parameter):
                parameter.data.sub_(parameter.grad * 0.001)

            handles.append(each.register_post_accumulate_grad_hook(update))
    for _ in range(3):
        given = x.detach().clone().requires_grad_()
        source = given * 1.5  # no leaf
        source.retain_grad()
        outputs = call(source)
        outputs.register_hook(lambda gradient: gradient + 1)
        outputs.square().mean().backward()
        noted += [outputs.detach().clone(), given.grad, source.grad.clone()]
        noted += [None if each.grad is None else each.grad.clone() for each in parameters.values()]
        noted += [value.clone() for value in model.state_dict().values()]
    for handle in handles:
        handle.remove()
    return [*noted, torch.get_rng_state()]


@pytest.mark.parametrize("kind", ["", "hooks", "optimizer"])
@pytest.mark.parametrize("gradients", ["returned", "accumulated"])
@pytest.mark.parametrize("forward", FORWARD, ids=[each.__name__ for each in FORWARD])
def test_gradients_are_added_up_as_they_are_without_a_plan(forward, gradients, kind):
    model, x = Forward(forward), torch.randn(6, 6)
    inputs = [x.clone().requires_grad_()]
    whole = planned(model, inputs, "1TiB", gradients=gradients, durations="flop", workspaces="none")
    before = {key: value.clone() for key, value in model.state_dict().items()}
    wanted = loop(model, model, x, kind)
    assert all(each is None or each.isfinite().all() for each in wanted)
    for sequence in sequences(whole.traced.problem, random.Random(f"{forward.__name__} {kind}")):
        model.load_state_dict(before)
        call = with_sequence(whole, sequence).module()
        if gradients == "accumulated" and kind:
            with pytest.raises(PlanError, match="has hooks"):
                loop(model, call, x, kind)
            return
        assert same(loop(model, call, x, kind), wanted)


@pytest.fixture
def alone():
    """A group of processes of which this is the only one."""
    distributed = torch.distributed
    if not distributed.is_available() or distributed.is_initialized():
        pytest.skip("no group of processes can be made")
    distributed.init_process_group("gloo", store=distributed.HashStore(), rank=0, world_size=1)
    yield distributed
    distributed.destroy_process_group()


def test_what_communicates_keeps_its_order_and_is_computed_once(alone):
    functional = pytest.importorskip("torch.distributed._functional_collectives")

    class Reduced(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, in_place):
            ctx.in_place = in_place
            return x * 1

        @staticmethod
        def backward(ctx, gradient):
            if ctx.in_place:
                alone.all_reduce(gradient := gradient.clone())
                return gradient, None
            return functional.wait_tensor(functional.all_reduce(gradient, "sum", alone.group.WORLD)), None

    def forward(self, x, in_place=False):
        return Reduced.apply(Reduced.apply(x @ self.a, in_place).tanh() @ self.b + self.c, in_place)

    model, inputs = Forward(forward), [torch.randn(6, 6, requires_grad=True)]
    whole = planned(model, inputs, "1TiB", durations="flop", workspaces="none")
    problem, names = whole.traced.problem, whole.graph.nodes
    reduced = [v for v in whole.graph.input_order() if str(names[v]).startswith(("all_reduce", "wait_tensor"))]
    assert len(reduced) >= 4 and not any(problem.movable[v] or problem.most[v] for v in reduced)
    other, fresh = twin(model, inputs)
    wanted = steps(other, other, fresh, 2)
    for sequence in sequences(problem, random.Random(0))[:1]:
        assert [v for v in sequence if v in reduced] == reduced
        assert same(steps(model, with_sequence(whole, sequence).module(), inputs, 2), wanted)
    with pytest.raises(PlanError, match="communicates with other processes in place"):
        planned(Forward(lambda self, x: forward(self, x, True)), inputs, "1TiB")


def dense(depth=4, width=64):
    """With random numbers, statistics and a gradient of the input."""
    torch.manual_seed(0)
    layers = [each for _ in range(depth) for each in (nn.Linear(width, width), nn.Dropout(0.1), nn.GELU())]
    model = nn.Sequential(*layers, nn.BatchNorm1d(width), nn.Linear(width, 1))
    return model, [torch.randn(8, width, requires_grad=True)]


class UNet(nn.Module):
    """Two levels, with connections across."""

    def __init__(self, width):
        super().__init__()
        self.down = nn.ModuleList([nn.Conv2d(4, width, 3, padding=1), nn.Conv2d(width, 4 * width, 3, 2, 1)])
        self.middle = nn.Conv2d(4 * width, 16 * width, 3, 2, 1)
        self.up = nn.ModuleList([nn.Conv2d(20 * width, 4 * width, 3, padding=1), nn.Conv2d(5 * width, 4, 3, padding=1)])

    def forward(self, x):
        first = self.down[0](x).relu()
        second = self.down[1](first).relu()
        x = self.middle(second).relu()
        for layer, across in zip(self.up, (second, first), strict=True):
            x = layer(torch.cat([nn.functional.interpolate(x, scale_factor=2), across], 1)).relu()
        return x.square().mean()


class Pooling(nn.Module):
    """Attention with a query that is learned, as at the end of vision towers."""

    def __init__(self, width):
        super().__init__()
        self.query = nn.Parameter(torch.randn(1, 1, width))
        self.first, self.attention = nn.Linear(width, width), nn.MultiheadAttention(width, 4, batch_first=True)
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x):
        x = self.first(x).tanh()
        x = self.attention(self.query.expand(len(x), -1, -1), x, x)[0]
        return (x + self.down(self.up(x).tanh())).square().mean()


def unet(width=8, batch=1):
    torch.manual_seed(0)
    return UNet(width), [torch.randn(batch, 4, 16, 16)]


def pooling():
    torch.manual_seed(0)
    return Pooling(32), [torch.randn(4, 6, 32)]


MAKE = pytest.mark.parametrize("make", [unet, lambda: unet(4, 2), pooling], ids=["unet", "batch", "pooling"])


def unmeasured(model, inputs, budget, **options):
    return planned(model, inputs, budget, durations="flop", workspaces="none", **options)


@MAKE
def test_orders_take_less_and_keep_what_must_not_move(make):
    model, inputs = make()
    problem = unmeasured(model, inputs, "1TiB").traced.problem
    graph, found = problem.graph, [*moved(problem, lambda: False, lambda: 100.0)]
    assert found and all(each.reordered and each.graph.input_order() != graph.input_order() for each in found)
    assert not [*moved(problem, lambda: True, lambda: 100.0)] and not [*moved(problem, lambda: False, lambda: 0.0)]
    assert simulate(graph, found[-1].graph.input_order()).peak < simulate(graph, graph.input_order()).peak
    for each in found:
        order = each.graph.input_order()
        firm = [v for v in graph.input_order() if not problem.movable[v]]
        assert [v for v in order if not problem.movable[v]] == firm
        assert meant(problem, order) and meant(each, order)


def test_what_does_not_move():
    model, inputs = dense()
    problem = unmeasured(model, inputs, "1TiB", gradients="accumulated").traced.problem
    order = list(problem.graph.input_order())
    cut = next(at for at, v in enumerate(order) if isinstance(problem.meanings[v], Cut))
    assert not any(problem.movable[v] for v in order[: cut + 1])
    added = [v for v, each in enumerate(problem.meanings) if isinstance(each, Accumulation)]
    assert len(added) == len([*model.parameters()]) and all(problem.movable[v] for v in added)
    late = [order[-1], order[cut]]  # the results need all there is; the cut what comes before it
    for v in late:
        with pytest.raises(PlanError, match="no schedule"):
            meant(problem, [v, *(u for u in order if u != v)])


class Two(nn.Module):
    """Two branches, so that the order of the forward pass could be another one."""

    def __init__(self):
        super().__init__()
        self.one, self.other = nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, x):
        return (self.one(x).sigmoid() * self.other(x).tanh()).sum()


def test_another_order_of_the_forward_pass_is_refused():
    torch.manual_seed(0)
    problem = unmeasured(Two(), [torch.randn(4, 8)], "1TiB").traced.problem
    graph, order = problem.graph, list(problem.graph.input_order())
    cut = next(at for at, v in enumerate(order) if isinstance(problem.meanings[v], Cut))
    swaps = [at for at in range(cut - 1) if order[at] not in graph.predecessors[order[at + 1]]]
    assert swaps
    for at in swaps:
        other = [*order[:at], order[at + 1], order[at], *order[at + 2 :]]
        assert simulate(graph, other).feasible
        with pytest.raises(PlanError, match="order of the trace"):
            meant(problem, other)


@MAKE
def test_a_plan_of_moved_gradients_needs_no_recomputation_and_can_be_kept(make, tmp_path):
    model, inputs = make()
    whole = unmeasured(model, inputs, "1TiB")
    orders = [*moved(whole.traced.problem, lambda: False, lambda: 100.0)]
    least = min(peaks(whole.traced.linear(each.graph.input_order())).whole for each in orders)
    assert least < 0.9 * whole.peaks.whole
    found = unmeasured(model, inputs, least)
    assert found.peaks.whole <= least and found.recomputations == 0 and found.status == "optimal"
    assert found.unplanned.whole == whole.peaks.whole
    if make is pooling:  # whose operators take nothing more inside
        assert excess(found, found.module(), inputs) == (0, 0)
    assert found.verify(inputs).equal
    with pytest.raises(NoPlanError, match="traced order"):
        unmeasured(model, inputs, least, max_computations=1, if_none="stop")
    found.save(tmp_path / "plan.json")
    again = Plan.load(tmp_path / "plan.json", model)
    assert again.sequence == found.sequence and again.moves and again.verify(inputs).equal
    assert "in another order" in found.report() and "as it is" in whole.report() and not whole.changes
    for by in ("event", "stage"):
        found.plot(tmp_path / "plan.svg", by=by)


def test_other_orders_are_sought_once_and_only_where_they_may_help(monkeypatch):
    asked, real = list[int](), searching.moved

    def counted(problem, *options):
        asked.append(len(problem.graph.nodes))
        return real(problem, *options)

    monkeypatch.setattr(searching, "moved", counted)
    model, inputs = unet()
    whole = unmeasured(model, inputs, "1TiB")
    assert unmeasured(model, inputs, whole.peaks.whole).peaks == whole.peaks and not asked
    found = unmeasured(model, inputs, whole.peaks.whole - 1)
    assert found.moves and not found.repeats and len(asked) == 1
    unmeasured(model, inputs, "least", time_limit=2.0)
    assert len(asked) == 2
    with pytest.raises(NoPlanError):
        unmeasured(model, inputs, whole.peaks.whole - 1, if_none="stop", max_computations=1)
    model, inputs = nn.Sequential(*(each for _ in range(4) for each in (nn.Linear(8, 8), nn.GELU()))), [number(256, 8)]
    whole = unmeasured(model, inputs, "1TiB")
    found = unmeasured(model, inputs, whole.peaks.forward - 1)  # which no order of the backward pass changes
    assert found.repeats and not found.moves and len(asked) == 2


def test_a_network_with_plans_runs_what_only_moves_gradients():
    model, inputs = unet(4, 2)
    whole = unmeasured(model, inputs, "1TiB")
    order = [*moved(whole.traced.problem, lambda: False, lambda: 100.0)][-1].graph.input_order()
    least = peaks(whole.traced.linear(order)).whole
    other, fresh = twin(model, inputs)
    wanted = steps(other, other, fresh, 2)
    plans = Plans(model, budget=least, time_limit=20, durations="flop", workspaces="none")
    step = plans.module()
    assert same(steps(model, step, inputs, 2), wanted)
    assert [each.moves and not each.repeats for each in plans.plans] == [True]
    x = inputs[0].clone()
    assert type(step(x).grad_fn).__name__ == "PlannedBackward"


@MAKE
def test_the_least_plan_moves_gradients_and_proofs_hold_however_they_are_moved(make):
    model, inputs = make()
    whole = unmeasured(model, inputs, "1TiB")
    found = unmeasured(model, inputs, "least", time_limit=4.0)
    problem, instance = replace(found.traced.problem, reordered=True), unlimited(found.traced, 2)
    proven = proven_however_moved(problem, instance)
    assert found.moves and found.peaks.whole < 0.85 * whole.peaks.whole
    assert found.least_proven <= proven <= found.peaks.whole and found.verify(inputs).equal
    assert proven_at_once(problem, instance) == proven_at_once(whole.traced.problem, instance) <= proven
    tangents = sum(found.graph.sizes[v] for v, each in enumerate(problem.meanings) if isinstance(each, Root))
    with pytest.raises(NoPlanError, match="no plan is within it"):
        unmeasured(model, inputs, proven_at_once(problem, instance) - tangents - 1)
