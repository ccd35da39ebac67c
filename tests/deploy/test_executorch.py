"""Offsets for ExecuTorch: judged, as small as proven, and its runtime computes the same in them."""

# ruff: noqa: E402 - nothing can be imported before it is known that ExecuTorch is there

from __future__ import annotations

import io
import itertools
import sys
from contextlib import redirect_stdout

import pytest

torch = pytest.importorskip("torch", minversion="2.13")
pytest.importorskip("executorch.exir")

from documents import page
from executorch.exir import ExecutorchBackendConfig, to_edge
from executorch.exir.memory_planning import Verifier, greedy
from executorch.exir.passes import MemoryPlanningPass
from executorch.exir.passes.init_mutable_pass import InitializedMutableBufferPass
from executorch.exir.tensor import TensorSpec
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from moccasin_mzn.base.errors import InputError
from moccasin_mzn.deploy.executorch import MemoryPlanning
from moccasin_mzn.problem.arena import Buffer, bound_of
from moccasin_mzn.problem.judges.arenas import flaws

pytestmark = pytest.mark.full
CALLERS_OWN = {"alloc_graph_input": False, "alloc_graph_output": False}


class Cells(nn.Module):
    """Convolutions in branches of different widths, and connections past a cell."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, padding=1)
        widths = ((8, 4), (8, 12), (12, 6), (8, 7), (7, 3))
        self.cells = nn.ModuleList(nn.ModuleList(nn.Conv2d(i, o, 3, padding=1) for i, o in widths) for _ in range(3))
        self.joins = nn.ModuleList(nn.Conv2d(21, 8, 1) for _ in self.cells)

    def forward(self, x):
        before = x = self.stem(x)
        for (narrow, wide, back, other, least), join in zip(self.cells, self.joins, strict=True):
            parts = [narrow(x).relu(), back(wide(x).relu()).relu(), least(other(x).relu()), x]
            before, x = x, join(torch.cat(parts, 1)).relu() + before
        return x.mean((2, 3))


class Branches(nn.Module):
    """Control flow, whose branches have tensors of their own."""

    def forward(self, x):
        y = x.relu() @ x
        z = torch.cond(y.sum() > 0, lambda a: (a @ a).sin() + 1, lambda a: torch.cat([a, a], 1)[:, :8].cos() * 2, (y,))
        return z @ y + x


class State(nn.Module):
    """A buffer that is written to."""

    def __init__(self):
        super().__init__()
        self.register_buffer("total", torch.zeros(4, 8))

    def forward(self, x):
        self.total.add_(x.cumsum(1).sin())
        return self.total.relu() * 2 + x.exp()


def mlp():
    return nn.Sequential(nn.Linear(40, 100), nn.GELU(), nn.Linear(100, 30), nn.Tanh(), nn.Linear(30, 7))


NETWORKS = {
    "cells": (Cells, (1, 3, 8, 8)), "mlp": (mlp, (5, 40)), "branches": (Branches, (8, 8)), "state": (State, (4, 8)),
}  # fmt: skip


def program(name, algorithm=None, passes=MemoryPlanningPass, dynamic=None, config=None, **options):
    torch.manual_seed(0)
    network, shape = NETWORKS[name]
    planning = passes(memory_planning_algo=algorithm, **options)
    with torch.no_grad():
        exported = torch.export.export(network().eval(), (torch.randn(shape),), dynamic_shapes=dynamic)
        how = {"memory_planning_pass": planning, "passes": [InitializedMutableBufferPass(["total"])], **(config or {})}
        made = to_edge(exported).to_executorch(ExecutorchBackendConfig(**how))
    return made, made.executorch_program.execution_plan[0].non_const_buffer_sizes


def outputs(made, *calls):
    """What the runtime computes, call after call."""
    runtime = pytest.importorskip("executorch.runtime").Runtime.get()
    method = runtime.load_program(made.buffer).load_method("forward")
    return [[output.clone() for output in method.execute([given])] for given in calls]


def same(one, other):
    return all(torch.equal(a, b) for x, y in zip(one, other, strict=True) for a, b in zip(x, y, strict=True))


class Asked:
    """An algorithm, and what it was asked and said: specs, alignment, first free bytes, padding, sizes."""

    def __init__(self, algorithm):
        self.algorithm, self.calls = algorithm, []

    def __call__(self, alignment, specs, graph_module, graph_signature, padding):
        sizes = self.algorithm(alignment, specs, graph_module, graph_signature, padding)
        self.calls.append((list(specs), alignment, list(graph_module.input_mem_buffer_sizes), padding, list(sizes)))
        self.judge(*self.calls[-1])
        return sizes

    @staticmethod
    def judge(specs, alignment, taken, padding, sizes):
        """Tensors that live together lie apart, where they may, and each memory is as large as its last one needs."""
        for mem_id in {spec.mem_id for spec in specs}:
            own = [spec for spec in specs if spec.mem_id == mem_id and spec.storage_base is None]
            boxes = [(spec.lifetime[0], spec.lifetime[1] + 1, spec.allocated_memory, alignment) for spec in own]
            assert [*flaws(boxes, [spec.mem_offset for spec in own])] == []
            free = taken[mem_id] if mem_id < len(taken) else 0
            assert all(spec.mem_offset >= free for spec in own)
            assert sizes[mem_id] == max(spec.mem_offset + spec.allocated_memory for spec in own) + padding
        for spec in specs:
            if spec.storage_base is not None:
                assert spec.mem_id == spec.storage_base.mem_id
                assert spec.mem_offset == spec.storage_base.mem_offset + spec.storage_base_offset


def verify(made, **options):
    """ExecuTorch's own check, which its pass makes of greedy plans only."""
    whose = [options.get(f"alloc_graph_{end}", True) for end in ("input", "output")]
    exported = made.exported_program()
    Verifier(exported.graph_module, *whose, True, exported.graph_signature).verify_storage_reuse()


@pytest.mark.parametrize("options", [{}, CALLERS_OWN, {"alignment": 64}], ids=("all", "callers own", "64"))
@pytest.mark.parametrize("name", NETWORKS)
def test_arenas_are_judged_as_small_as_proven_and_compute_the_same(name, options):
    planning = MemoryPlanning(time_limit=5)
    asked = Asked(planning)
    made, sizes = program(name, asked, **options)
    of_greedy, greedy_sizes = program(name, **options)
    verify(made, **options)
    assert len(sizes) == len(greedy_sizes) and all(a <= b for a, b in zip(sizes, greedy_sizes, strict=True))
    for (specs, alignment, taken, _, sizes), arena in zip(asked.calls, planning.arenas, strict=True):
        buffers = [Buffer("", spec.lifetime[0], spec.lifetime[1] + 1, spec.allocated_memory) for spec in specs]
        assert sizes[1] - sum(taken) == arena.size == bound_of(tuple(buffers), alignment) == arena.bound
    calls = [torch.randn(NETWORKS[name][1]) for _ in range(2)]
    assert same(outputs(made, *calls), outputs(of_greedy, *calls))


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("share", [0.5, 0.8])
def test_tensors_in_two_memories_compute_the_same(name, share):
    of_greedy, (_, whole) = program(name)
    budget = int(share * whole)
    asked = Asked(MemoryPlanning(memories={"fast": budget, "slow": "1MiB:4"}))
    made, sizes = program(name, asked)
    assert len(sizes) == 3 and 0 < sizes[1] <= budget and sizes[2] > 0
    calls = [torch.randn(NETWORKS[name][1]) for _ in range(2)]
    assert same(outputs(made, *calls), outputs(of_greedy, *calls))


@pytest.mark.parametrize("costs", list(itertools.permutations(("0.5", "0.4", "1.25"))))
def test_tensors_lie_where_accesses_take_least(costs):
    """Fractions whose denominators differ, too; where there is room for all tensors, all of them do."""
    _, sizes = program("mlp", MemoryPlanning(memories={f"at {cost}": f"inf:{cost}" for cost in costs}))
    cheapest = 1 + costs.index("0.4")
    assert sizes[cheapest] > 0 and sum(sizes) == sizes[cheapest]


def planned(memories, sizes, taken, padding, alignment=16):
    """Sizes of memories for tensors that live together, judged."""
    specs = [TensorSpec(torch.uint8, torch.Size([size])) for size in sizes]
    for spec in specs:
        spec.lifetime = [0, 1]
    graph_module = torch.fx.GraphModule(nn.Module(), torch.fx.Graph())
    graph_module.input_mem_buffer_sizes = taken
    return Asked(MemoryPlanning(memories=memories))(alignment, specs, graph_module, None, padding)


@pytest.mark.parametrize("padding", [0, 64])
@pytest.mark.parametrize("taken", [[], [0, 4096], [0, 32, 4096]])
def test_what_branches_and_padding_take_counts_where_there_is_a_limit(taken, padding):
    before = [*taken, 0, 0, 0][1:3]
    assert planned({"a": None}, [128, 64], taken[:2], padding) == [0, before[0] + 192 + padding]
    limit = before[0] + padding + 64
    sizes = planned({"a": limit, "b": None}, [64, 64], taken, padding)
    assert len(sizes) == 3 and sizes[1] <= limit
    with pytest.raises(InputError, match="no room found for 192 B of tensors in a 64 B"):
        planned({"a": limit}, [128, 64], taken[:2], padding)
    with pytest.raises(InputError, match="no room found for 64 B of tensors in a 0 B"):
        planned({"a": 16}, [64], [0, 4096], 64)


def test_tensors_without_room_in_the_memories_are_refused_in_one_line():
    with pytest.raises(Exception, match="no room found for .* of tensors in fast 64 B, slow 128 B"):
        program("mlp", MemoryPlanning(memories={"fast": 64, "slow": "128:2"}))
    with pytest.raises(InputError, match="memory fast: expected a number of bytes"):
        MemoryPlanning(memories={"fast": "50%"})


def test_memories_that_make_no_sense_are_refused_at_once():
    with pytest.raises(InputError, match="no memory: expected one or more"):
        MemoryPlanning(memories={})
    with pytest.raises(InputError, match="memories: expected values by name, got \\['a'\\]"):
        MemoryPlanning(memories=["a"])
    with pytest.raises(InputError, match="memory a: budget 0 is not positive"):
        MemoryPlanning(memories={"a": 0})


def test_memory_planning_is_smaller_than_greedy_where_greedy_is_not_the_least():
    assert [program("cells", algorithm)[1] for algorithm in (None, MemoryPlanning())] == [[0, 15616], [0, 12800]]


def test_executorch_example_prints_what_it_shows():
    blocks = [each for each in page("docs/deploy.md").blocks if each.language == "python" and "executorch" in each.text]
    names = {"__name__": "example"}
    for block, count in zip(blocks, (2, 1), strict=True):
        with redirect_stdout(io.StringIO()) as printed:
            exec(compile(block.text, "example", "exec"), names)
        assert printed.getvalue().splitlines() == block.answers and len(block.answers) == count


def test_where_all_tensors_lie_at_one_place_results_are_others():
    def heap(alignment, specs, graph_module, graph_signature, padding):
        sizes = MemoryPlanning()(alignment, specs, graph_module, graph_signature, padding)
        for spec in specs:
            spec.mem_offset = 0
        return sizes

    given = torch.randn(1, 3, 8, 8)
    assert not same(outputs(program("cells", heap)[0], given), outputs(program("cells")[0], given))


def test_dynamic_shapes_have_room_for_their_upper_bound():
    dynamic = ({0: torch.export.Dim("batch", min=1, max=9)},)
    (made, sizes), (of_greedy, at_most) = (program("mlp", one, dynamic=dynamic) for one in (MemoryPlanning(), None))
    assert program("mlp", MemoryPlanning())[1][1] < sizes[1] <= at_most[1]
    calls = [torch.randn(rows, 40) for rows in (1, 9, 4)]
    assert same(outputs(made, *calls), outputs(of_greedy, *calls))


class Pools(MemoryPlanningPass):
    """Puts what convolutions put out into a memory of its own."""

    def run(self, graph_module, graph_signature=None):
        for node in graph_module.graph.nodes:
            if "convolution" in str(node.target):
                node.meta["spec"].mem_id = 3
        return super().run(graph_module, graph_signature)


class InPlace(MemoryPlanningPass):
    """Has tanh write over its input."""

    def run(self, graph_module, graph_signature=None):
        for node in graph_module.graph.nodes:
            if "tanh" in str(node.target):
                node.meta["_share_alloc_with_arg_idx"] = 0
        return super().run(graph_module, graph_signature)


def test_memories_that_a_pass_has_chosen_are_kept():
    asked = Asked(MemoryPlanning())
    (made, sizes), (of_greedy, at_most) = (program("cells", one, Pools) for one in (asked, None))
    assert [size > 0 for size in sizes] == [False, True, False, True]
    assert sizes[1] <= at_most[1] and sizes[3] <= at_most[3]
    assert {spec.mem_id for spec in asked.calls[0][0]} == {1, 3}
    given = torch.randn(1, 3, 8, 8)
    assert same(outputs(made, given), outputs(of_greedy, given))


def test_a_tensor_in_the_storage_of_another_one_stays_there():
    asked = Asked(MemoryPlanning())
    (made, sizes), (of_greedy, at_most) = (program("mlp", one, InPlace) for one in (asked, None))
    assert [spec.storage_base is not None for spec in asked.calls[0][0]].count(True) == 1 and sizes[1] <= at_most[1]
    verify(made)
    given = torch.randn(5, 40)
    assert same(outputs(made, given), outputs(of_greedy, given))


def test_state_that_is_shared_or_written_in_place():
    calls = [torch.randn(4, 8) for _ in range(3)]
    for config in ({}, {"run_reinplace_pass": True}):
        for options in ({}, {"share_mutable_buffers": True}):
            made, sizes = program("state", MemoryPlanning(), config=config, **options)
            of_greedy, at_most = program("state", config=config, **options)
            assert len(sizes) == len(at_most) and sum(sizes) <= sum(at_most)
            assert same(outputs(made, *calls), outputs(of_greedy, *calls))


@st.composite
def planned_tensors(draw):
    """TensorSpecs as a pass may leave them: memories, and tensors within tensors that live as long."""
    alignment, specs = draw(st.sampled_from((1, 16, 64))), []
    for _ in range(draw(st.integers(0, 9))):
        spec = TensorSpec(torch.uint8, torch.Size([draw(st.integers(0, 500))]))
        start = draw(st.integers(0, 12))
        spec.lifetime, spec.mem_id = [start, start + draw(st.integers(0, 5))], draw(st.sampled_from((None, None, 1, 2)))
        specs.append(spec)
    for base in [spec for spec in specs if draw(st.booleans()) and spec.shape[0] > alignment]:
        part = TensorSpec(torch.uint8, torch.Size([draw(st.integers(0, base.shape[0] - alignment))]))
        part.storage_base, part.storage_base_offset = base, draw(st.sampled_from((0, alignment)))
        part.lifetime = list(base.lifetime)
        specs.append(part)
    taken = draw(st.sampled_from(([], [0, 40], [0, 128, 7, 64])))
    return alignment, draw(st.permutations(specs)), taken, draw(st.sampled_from((0, 64)))


@settings(max_examples=60, deadline=None)
@given(planned_tensors())
def test_whatever_is_planned_is_judged_and_no_larger_than_greedy(tensors):
    alignment, specs, taken, padding = tensors
    graph_module = torch.fx.GraphModule(nn.Module(), torch.fx.Graph())
    graph_module.input_mem_buffer_sizes = [-(-size // alignment) * alignment for size in taken]
    for spec in specs:  # its own order is of sizes before that
        spec.realign(alignment)
    at_most = greedy(alignment, specs, graph_module, None, padding).bufsizes
    graph_module.input_mem_buffer_sizes = taken
    sizes = Asked(MemoryPlanning(time_limit=0.3))(alignment, specs, graph_module, None, padding)
    used = {spec.mem_id for spec in specs}
    assert all(sizes[mem_id] <= at_most[mem_id] for mem_id in used)
    assert all(sizes[at] >= size for at, size in enumerate(taken))


def test_an_alignment_that_changes_the_order_of_sizes():
    specs = [TensorSpec(torch.uint8, torch.Size([size])) for size in (466, 465)]  # 480 both, aligned as they are born
    for start, spec in enumerate(specs):
        spec.lifetime = [start, start]
    graph_module = torch.fx.GraphModule(nn.Module(), torch.fx.Graph())
    for order in (specs, specs[::-1]):
        assert MemoryPlanning()(1, order, graph_module, None) == [0, 466]


def test_memory_planning_rejects_wrong_arguments_and_names_missing_packages(monkeypatch):
    with pytest.raises(InputError, match="time limit -1 is not a positive number of seconds"):
        MemoryPlanning(time_limit=-1)
    monkeypatch.setitem(sys.modules, "executorch", None)
    with pytest.raises(InputError, match=r"executorch is missing: pip install .*\[executorch\]"):
        MemoryPlanning()
