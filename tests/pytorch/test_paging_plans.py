"""Plans with slow memory: what is written there and read back is what it was, and both peaks are as predicted."""

from __future__ import annotations

import json
import random
from dataclasses import replace

import pytest
import torch
from odd_modules import ODD
from step_networks import NETWORKS
from step_runs import backward, excess, made, planned, same, steps, twin
from torch.nn import functional

from moccasin_mzn.base.errors import InputError
from moccasin_mzn.machine.platforms import LOCAL, SLOW
from moccasin_mzn.problem.platform import Action
from moccasin_mzn.pytorch import Plan, PlanError
from moccasin_mzn.pytorch.computations import Computation
from moccasin_mzn.pytorch.instructions import peaks
from moccasin_mzn.pytorch.memories import with_early_writes
from moccasin_mzn.pytorch.offloading import measured_costs, read_back, settled, slow_meter, write_out

EVERY = {**NETWORKS, **ODD}
FREE = {"out_time": 0}
BUDGETS = {"mlp": 0.4, "resnet": 0.6, "gpt": 0.4, "unet": 0.75, "llama": 0.5, "lstm": 0.55}
"""Near the least that is possible for these; copies cost nothing, so that they are preferred."""


@pytest.mark.few(3)
@pytest.mark.parametrize("name", NETWORKS)
def test_paging_plan_trains_as_without_a_plan(name):
    model, inputs = made(NETWORKS[name])
    other, fresh = twin(model, inputs)
    found = planned(model, inputs, BUDGETS[name], paging=FREE, time_limit=90.0)  # it ends with the first plan
    assert found.copies > 0 and found.predicted_peak <= found.budget
    assert verified(found, inputs)
    step = found.module()
    assert same(steps(model, step, inputs), steps(other, other, fresh))
    assert excess(found, step, inputs) == (0, 0)


def verified(found, inputs):
    """Is all equal, and are all peaks as predicted?"""
    told = found.verify(inputs)
    assert (told.predicted_peak, told.predicted_slow_peak) == (found.predicted_peak, found.predicted_slow_peak)
    measured = told.peak, told.storage_peak, told.slow_peak
    return told.equal and measured == (told.predicted_peak, told.predicted_storage_peak, told.predicted_slow_peak)


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


@pytest.mark.few(10)
@pytest.mark.parametrize("name", EVERY)
def test_paging_copies_keep_results(name):
    model, inputs = made(EVERY[name])
    whole = planned(model, inputs, "1TiB")
    other, fresh = twin(model, inputs)
    wanted = steps(other, other, fresh, 2)
    problem = whole.traced.problem
    one, other_one = (drawn(problem, random.Random(seed)) for seed in (2, 3))
    for actions in (one, other_one, with_early_writes(one), all_copied(problem)):
        _, inputs = twin(model, inputs)
        found = with_actions(whole, actions)
        before = {key: value.clone() for key, value in model.state_dict().items()}
        step = found.module()
        assert same(steps(model, step, inputs, 2), wanted)
        assert excess(found, step, inputs) == (0, 0)
        with slow_meter() as meter:
            backward(step(*inputs))
        assert meter.peak == found.predicted_slow_peak
        model.load_state_dict(before)
    assert found.predicted_slow_peak > 0  # all copied


SEVERAL = {
    "topk": lambda y: y.topk(3, 1)[0].repeat(1, 2),
    "max_with_indices": lambda y: y.max(1, keepdim=True)[0] * y + y.min(0)[0],
    "sort": lambda y: y.sort(1)[0] * y.cummax(1)[0],
    "split": lambda y: torch.cat([part.sin() * y[:, :1] for part in (*y.split([1, 2, 3], 1)[:2], y.chunk(2, 1)[1])], 1),
    "unbind": lambda y: torch.stack(y.unbind(1)[::-1], 1).sin() * y.unbind(0)[0],
    "layer_norm": lambda y: functional.layer_norm(y, (6,)).tanh() * functional.layer_norm(y, (6,)),
    "batch_norm": lambda y: functional.batch_norm(y, None, None, training=True).tanh(),
    "dropout": lambda y: torch.native_dropout(y, 0.4, True)[0] * functional.dropout(y.sin(), 0.2),
    "var_mean": lambda y: (y - torch.var_mean(y, 1, keepdim=True)[1]) * torch.var_mean(y, 1, keepdim=True)[0],
    "max_pool": lambda y: functional.max_pool1d(y[:, None], 3, 1, 1, return_indices=True)[0][:, 0].tanh(),
    "aminmax": lambda y: (y - torch.aminmax(y, dim=1, keepdim=True)[0]) * y.std(0),
}


class _Several(torch.nn.Module):
    """Operations of several outputs between two layers, and once more behind them."""

    def __init__(self, name):
        super().__init__()
        self.one, self.two, self.name = torch.nn.Linear(6, 6), torch.nn.Linear(6, 6), name

    def forward(self, x):
        of = SEVERAL[self.name]
        return of(self.two(of(self.one(x))))


@pytest.mark.few(2)
@pytest.mark.parametrize("name", SEVERAL)
def test_all_outputs_of_an_operation_are_copied_together(name):
    """Of a computation all that it makes is one node, of which nothing is left behind where it is copied."""
    model, inputs = made(lambda: (_Several(name), [torch.randn(5, 6, requires_grad=True)]))
    whole = planned(model, inputs, "1TiB")
    graph, several = whole.traced.problem.graph, 0
    for v, meaning in enumerate(whole.traced.problem.meanings):
        if isinstance(meaning, Computation):
            assert graph.sizes[v] == sum(root.bytes for root in meaning.makes)
            several += sum(root.bytes > 0 for root in meaning.makes) > 1
    assert graph.output_of is None and graph.in_place is None
    assert several or name in ("split", "unbind")  # views take no memory
    other, fresh = twin(model, inputs)
    wanted = steps(other, other, fresh, 2)
    before = {key: value.clone() for key, value in model.state_dict().items()}
    for actions in (all_copied(whole.traced.problem), drawn(whole.traced.problem, random.Random(name))):
        found = with_actions(whole, actions)
        step = found.module()
        assert same(steps(model, step, twin(model, inputs)[1], 2), wanted)
        assert excess(found, step, inputs) == (0, 0)
        assert verified(found, inputs)
        model.load_state_dict(before)


@pytest.mark.few(1)
@pytest.mark.parametrize("name", SEVERAL)
def test_searched_plans_with_copies_of_several_outputs(name):
    model, inputs = made(lambda: (_Several(name), [torch.randn(64, 6, requires_grad=True)]))
    whole = planned(model, inputs, "1TiB")
    least = whole.predicted_peak * 9 // 10
    found = planned(model, inputs, least, paging=FREE)
    assert found.copies > 0 and found.predicted_peak <= least and verified(found, inputs)


def test_what_recomputation_cannot_do_copies_can(tmp_path):
    model, inputs = made(NETWORKS["mlp"])
    half = {"budget": "34KiB", "workspaces": "none"}
    with pytest.raises(PlanError, match="^budget 34.00 KiB: no plan is within it, .* which is proven"):
        planned(model, inputs, **half, time_limit=6.0)
    found = planned(model, inputs, **half, slow_memory="200KiB")  # copies cost what is measured
    assert 0 < found.predicted_slow_peak <= 200 * 1024 and found.predicted_increase > 0
    assert "slow " in found.report() and f"{found.copies} copies" in found.report()
    found.save(tmp_path / "plan.json")
    again = Plan.load(tmp_path / "plan.json", model)
    assert (again.actions, again.sequence, again.peaks) == (found.actions, found.sequence, found.peaks)
    lines, others = (
        [line for line in each.report().splitlines() if not line.startswith("verified ")] for each in (again, found)
    )
    assert lines == others
    told = again.verify(inputs)
    assert (told.equal, told.storage_peak, told.slow_peak) == (True, again.predicted_peak, again.predicted_slow_peak)


def test_writes_as_early_as_can_be_take_slow_memory_alone():
    model, inputs = made(NETWORKS["gpt"])
    found = planned(model, inputs, 0.4, paging=FREE)
    early = with_actions(found, with_early_writes(found.actions))
    assert sorted(map(str, early.actions)) == sorted(map(str, found.actions)) and early.actions != found.actions
    assert early.predicted_peak == found.predicted_peak and early.predicted_slow_peak >= found.predicted_slow_peak
    assert verified(early, inputs)


def test_a_plan_that_needs_no_copies_has_none():
    model, inputs = made(NETWORKS["mlp"])
    whole = planned(model, inputs, 1.0, paging=True)
    assert (whole.actions, whole.copies, whole.predicted_slow_peak) == ((), 0, 0)
    assert "slow" not in whole.report()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"paging": {}}, "paging: give out_time, the duration of writing per size unit (0 if it takes none)"),
        ({"paging": {"out_time": -1}}, "out time -1 is not an exact number of 0 or more"),
        ({"paging": {"speed": 1}}, "paging: unknown cost 'speed'"),
        ({"paging": "fast"}, "paging 'fast': expected PagingCosts or a mapping of costs by name"),
        ({"slow_memory": "much"}, "budget 'much'"),
        (
            {"paging": True, "two_phase": True},
            "two phase is for one memory, it does not go with offloading to host memory",
        ),
    ],
)
def test_paging_plans_reject_wrong_arguments_in_one_line(options, message):
    model, inputs = made(NETWORKS["mlp"])
    with pytest.raises(InputError) as error:
        planned(model, inputs, 0.5, **options)
    assert message in str(error.value) and "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda entries: entries.insert(0, {"read back": entries[-2]}), "is copied from slow, but is not there"),
        (lambda entries: entries.append({"written": "cut"}), "node cut is not computed, it cannot be copied"),
        (lambda entries: entries.append({"moved": "cut"}), "no plan: 'written' is missing"),
    ],
)
def test_a_file_of_copies_that_cannot_be_is_refused(tmp_path, change, message):
    model, inputs = made(NETWORKS["mlp"])
    path = tmp_path / "plan.json"
    planned(model, inputs, 1.0).save(path)
    document = json.loads(path.read_text())
    change(document["sequence"])
    path.write_text(json.dumps(document))
    with pytest.raises(InputError) as error:
        Plan.load(path, model)
    assert message in str(error.value) and "\n" not in str(error.value)


def written(tensor):
    slow = write_out(tensor)
    settled(slow, tensor)
    return slow


def odd_tensors(device):
    numbers = torch.arange(24.0, device=device)
    return [
        numbers, numbers.view(4, 6).t(), numbers[3:15:2], numbers[:1].expand(5), numbers.to(torch.bfloat16),
        numbers > 3, numbers.to(torch.complex64).conj(), numbers[:0], torch.tensor(7, device=device),
        numbers.view(2, 3, 2, 2).to(memory_format=torch.channels_last),
    ]  # fmt: skip


@pytest.mark.parametrize("number", range(10))
def test_what_is_read_back_is_laid_out_as_it_was(number):
    tensor = odd_tensors("cpu")[number]
    back = read_back(written(tensor))
    assert torch.equal(back, tensor) and back.dtype == tensor.dtype
    assert (back.size(), back.stride(), back.storage_offset()) == (
        tensor.size(), tensor.stride(), tensor.storage_offset()
    )  # fmt: skip
    assert back.untyped_storage().nbytes() == tensor.untyped_storage().nbytes()
    assert back.numel() == 0 or back.data_ptr() != tensor.data_ptr()


def test_slow_memory_is_none_of_the_allocators():
    """Neither meter counts it, and what is freed there is free."""
    from moccasin_mzn.pytorch.measuring import allocator_peak, storage_peak

    row = torch.ones(1000)
    assert allocator_peak(lambda: write_out(row)) == storage_peak(lambda: write_out(row)) == 0
    with slow_meter() as meter:
        assert len([write_out(row) for _ in range(3)]) == 3
    assert (meter.current, meter.peak) == (0, 12000)
    with slow_meter() as meter:
        for _ in range(3):
            slow = write_out(row)
            assert meter.current <= 8000  # the one before is freed when this one is there
    assert (meter.current, meter.peak) == (4000, 8000)
    assert allocator_peak(lambda: read_back(slow)) == storage_peak(lambda: read_back(slow)) == 4000


@pytest.mark.parametrize("unit", ["ns", "FLOP"])
def test_copies_take_longer_the_larger_they_are(unit):
    for costs in measured_costs("cpu", unit):
        assert costs.time > 0 and costs.latency > 0


needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")


@pytest.mark.cuda
@needs_cuda
@pytest.mark.parametrize("number", range(10))
def test_what_is_read_back_to_a_gpu_is_laid_out_as_it_was(number):
    tensor = odd_tensors("cuda")[number]
    back = read_back(written(tensor))
    assert back.is_cuda and torch.equal(back, tensor) and back.dtype == tensor.dtype
    assert (back.size(), back.stride()) == (tensor.size(), tensor.stride())


@pytest.mark.cuda
@needs_cuda
def test_a_busy_gpu_copies_what_was_meant():
    """Memory is freed, taken and overwritten at once, while all that is asked of the device is still to be done."""
    numbers = torch.arange(2.0**22, device="cuda")
    square = torch.ones(2048, 2048, device="cuda")
    kept, sums = [], []
    for number in range(20):
        for _ in range(5):
            square = square @ square / 2048
        tensor = numbers + number
        slow = write_out(tensor)
        settled(slow, tensor)
        kept.append(slow)
        assert slow.host_copy.is_pinned()
        del tensor, slow
        numbers.mul_(1)  # a block of the same size may be the one that was freed
        torch.full_like(numbers, -1.0)
    for slow in kept:
        sums.append(read_back(slow) - numbers)
    assert all(torch.equal(found, torch.full_like(numbers, number)) for number, found in enumerate(sums))


@pytest.mark.cuda
@needs_cuda
def test_copies_to_the_host_are_timed():
    for costs in measured_costs("cuda", "ns"):
        assert costs.time > 0 and costs.latency > 0


@pytest.mark.cuda
@needs_cuda
def test_a_plan_on_a_gpu_copies_to_the_host():
    model, inputs = made(NETWORKS["mlp"])
    model, inputs = model.cuda(), [each.cuda() for each in inputs]
    found = planned(model, inputs, 0.5, paging=FREE)
    told = found.verify(inputs)
    assert found.copies > 0 and (told.equal, told.unequal) == (True, ())
    assert told.slow_peak <= found.predicted_slow_peak  # which is of blocks, as in the memory of the GPU
    assert told.peak <= found.budget
