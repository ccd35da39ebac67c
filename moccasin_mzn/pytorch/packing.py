"""A solver for the knapsack of PyTorch's own partitioner, and the peak of a partition, wherever it comes from."""

from __future__ import annotations

import hashlib
import operator
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from fractions import Fraction
from functools import cache
from typing import TYPE_CHECKING

from moccasin_mzn.base.arguments import checked
from moccasin_mzn.base.formatting import memory_text
from moccasin_mzn.graphs.importers.torch.nodes import allocated_tensors, storage_bytes, viewed_argument
from moccasin_mzn.graphs.importers.torch.trace import quiet, require_torch
from moccasin_mzn.problem.budget import Budget
from moccasin_mzn.pytorch.compiling import KnownSchedule, KnownSchedules
from moccasin_mzn.pytorch.computations import ALL, Root, number_of_item
from moccasin_mzn.pytorch.errors import NoPlanError, compilation_error
from moccasin_mzn.pytorch.instructions import Instruction, Linear, Storage, Value, peaks
from moccasin_mzn.pytorch.joint import INPUT, TANGENT
from moccasin_mzn.pytorch.operator_costs import MEASURED_COSTS
from moccasin_mzn.pytorch.operator_process import OperatorCost

if TYPE_CHECKING:
    from torch import fx
    from torch._functorch.partitioners import NodeInfo
    from torch._inductor.custom_graph_pass import CustomKnapsackSolver
    from torch.utils._pytree import PyTree


Values = dict["fx.Node", Value]


def read_halves(forward: fx.Graph, backward: fx.Graph, outputs: int, workspace: Callable[[fx.Node], int]) -> Linear:
    """What two graphs do in turn; the second takes what the first one returns after its outputs, then the tangents.

    Args:
        workspace: bytes that an operator takes while it runs.
    """
    from torch.utils._pytree import arg_tree_leaves

    first, second = _Reader(workspace), _Reader(workspace)
    for node in forward.find_nodes(op="placeholder"):
        first.give(node, INPUT)
    instructions = first.instructions(forward)
    returned = [first.values.get(each) for each in arg_tree_leaves(*forward.output_node().args)]
    placeholders = backward.find_nodes(op="placeholder")
    kept = returned[outputs:]
    for node, value in zip(placeholders, kept, strict=False):
        if value is not None:
            second.values[node] = value
    for node in placeholders[len(kept) :]:
        second.give(node, TANGENT)
    others = second.instructions(backward)
    gradients = [second.values.get(each) for each in arg_tree_leaves(*backward.output_node().args)]
    own = tuple(value for value in returned[:outputs] if value is not None)
    return Linear(tuple(instructions), own, tuple(others), tuple(gradients), {**first.given, **second.given})


class _Reader:
    def __init__(self, workspace: Callable[[fx.Node], int]) -> None:
        self.workspace = workspace
        self.values: Values = {}
        self.given: Values = {}
        self.separate: dict[fx.Node, dict[int, Storage]] = {}
        """For a node with several outputs in memory of their own."""

    def give(self, node: fx.Node, kind: str) -> None:
        value = node.meta.get("val")
        self.values[node] = self.given[node] = Value(Storage(storage_bytes(value), kind), node, value)

    def instructions(self, graph: fx.Graph) -> list[Instruction]:
        from torch import fx

        def read(each: fx.Node) -> PyTree:
            return self.values[each]

        found = []
        for node in graph.nodes:
            if node.op == "get_attr":
                self.give(node, "constant")
            elif node.op == "call_function":
                value, makes = self._made(node)
                self.values[node] = value
                args, kwargs = fx.node.map_arg((node.args, dict(node.kwargs)), read)
                found.append(
                    Instruction(node.target, args, kwargs, value, tuple(makes), self.workspace(node), node=node)
                )
        return found

    def _made(self, node: fx.Node) -> tuple[Value, Iterable[Storage]]:
        made = node.meta.get("val")
        if allocated_tensors(node):
            if isinstance(made, (tuple, list)):
                self.separate[node] = {
                    at: Storage(_bytes(node, at)) for at, each in enumerate(made) if each is not None
                }
                return Value(None), self.separate[node].values()
            storage = Storage(_bytes(node, ALL))
            return Value(storage), (storage,)
        if node.target is operator.getitem and node.args[0] in self.separate:
            return Value(self.separate[node.all_input_nodes[0]].get(number_of_item(node))), ()
        viewed = viewed_argument(node)
        return Value(self.values[viewed].storage if viewed in self.values else None), ()


def _bytes(node: fx.Node, number: int) -> int:
    root = Root(node, number)
    return root.allocated if hasattr(root.value, "element_size") else 0


# --- A solver for the knapsack of PyTorch's own partitioner, which asks what peak comes of an answer.  --------

#     torch._functorch.config.activation_memory_budget_solver = moccasin_mzn.pytorch.knapsack(budget=0.5)
#     torch._functorch.config.activation_memory_budget = 0.01  # anything over 0 and below 1, or nobody is asked
#
# PyTorch packs what is kept from the forward to the backward pass, and takes the peak for granted. Here knapsacks of
# many
# sizes are packed, the step is parted by each answer as PyTorch would, and its peak computed to the byte: the answer is
# the fastest within the budget, and none to a smaller budget takes more.


_SIZES = 12
"""This many sizes of knapsacks are tried, from nothing to everything."""
_BANS = (
    "ban_if_used_far_apart",
    "ban_if_long_fusible_chains",
    "ban_if_materialized_backward",
    "ban_if_not_in_allowlist",
)
"""Rules of the partitioner, of what not to recompute, that it drops before it asks."""
_KNOWN: dict[object, tuple[int, KnownSchedules]] = {}
"""By joint graph: the usual peak, and the sets of what is kept, as schedules."""


@checked()
def knapsack(budget: str | int | float | Fraction | Budget) -> CustomKnapsackSolver:
    """A solver for `torch._functorch.config.activation_memory_budget_solver`.

    Args:
        budget: of memory at the allocator above parameters, buffers and inputs: bytes, or a fraction of what the
            compiled step takes where PyTorch's partitioner has no budget.

    Raises:
        InputError: nonsense in the budget. PlanError is raised by the first call of what is compiled.
    """
    require_torch()
    return _solver_class()(Budget.of(budget))


@cache
def _solver_class() -> Callable[[Budget], CustomKnapsackSolver]:
    from torch._inductor.custom_graph_pass import CustomKnapsackSolver

    class Knapsack(CustomKnapsackSolver):
        def __init__(self, budget: Budget) -> None:
            self.budget = budget

        def __call__(
            self, memory: list[float], joint_graph: fx.Graph, max_memory: float, node_info: NodeInfo,
            all_recomputable_banned_nodes: list[fx.Node],
        ) -> tuple[list[int], list[int]]:  # fmt: skip
            kept = _answer(self.budget, memory, _Question(joint_graph, node_info, all_recomputable_banned_nodes))
            return list(kept), [at for at in range(len(memory)) if at not in set(kept)]

        def uuid(self) -> None:
            return None  # what it answers depends on more than the graph: nothing is kept on disk

    return Knapsack


def _answer(budget: Budget, memory: Sequence[float], question: _Question) -> tuple[int, ...]:
    import torch
    from torch.utils._python_dispatch import _disable_current_modes

    key = question.digest(), torch.get_num_threads(), torch.backends.mkldnn.enabled
    if key not in _KNOWN:
        with _disable_current_modes(), quiet(), torch.no_grad():
            _KNOWN[key] = question.usual_peak(), KnownSchedules(question.schedules(memory))
    usual, known = _KNOWN[key]
    amount = budget.resolve(usual)
    answer = known.answer(amount)
    if answer is None:
        least = memory_text(min(each.peak for each in known.found), "byte")
        text = f"PyTorch's partitioner was seen to take {least} at the least"
        raise compilation_error(NoPlanError(f"budget {memory_text(amount, 'byte')}: {text}"))
    return answer.sequence


class _Question:
    """A joint graph, and the nodes that are each to be kept or recomputed."""

    def __init__(self, graph: fx.Graph, info: NodeInfo, nodes: Sequence[fx.Node]) -> None:
        self.graph, self.info, self.nodes = graph, info, nodes
        self.module: PyTree = graph.owning_module
        self.costs: dict[str, OperatorCost | None] = {}
        """By name, which a node keeps in every graph that it is copied to."""

    def digest(self) -> str:
        return hashlib.sha256(f"{self.graph}\n{list(self.nodes)}".encode()).hexdigest()

    def schedules(self, memory: Sequence[float]) -> list[KnownSchedule]:
        """What comes of knapsacks of several sizes."""
        from torch._functorch._activation_checkpointing.knapsack import dp_knapsack

        times = [float(self._nanoseconds(node)) for node in self.nodes]
        whole = sum(memory)
        packed = [tuple(range(len(memory)))]
        for size in range(_SIZES):
            packed.append(tuple(sorted(dp_knapsack(list(memory), times, whole * size / _SIZES)[1])))
        return [self._schedule(kept) for kept in dict.fromkeys(packed)]

    def _schedule(self, kept: tuple[int, ...]) -> KnownSchedule:
        from torch._functorch import config

        again = {node for at, node in enumerate(self.nodes) if at not in set(kept)}
        chosen = self._saved(dict.fromkeys(_BANS, False), config.ban_recompute_reductions, again)
        forward, backward, outputs = self._parted(chosen)
        calls = [node for graph in (forward, backward) for node in graph.nodes if node.op == "call_function"]
        return KnownSchedule(kept, sum(map(self._nanoseconds, calls)), self._peak(forward, backward, outputs))

    def usual_peak(self) -> int:
        """Where the partitioner has no budget."""
        from torch._functorch import config

        bans = {name: getattr(config, name.replace("_if_", "_recompute_")) for name in _BANS}
        return self._peak(*self._parted(self._saved(bans, config.ban_recompute_reductions, set())))

    def _peak(self, forward: fx.Graph, backward: fx.Graph, outputs: int) -> int:
        return peaks(read_halves(forward, backward, outputs, self._workspace)).whole

    def _workspace(self, node: fx.Node) -> int:
        cost = self._cost(node)
        return 0 if cost is None else cost.workspace

    def _nanoseconds(self, node: fx.Node) -> int:
        cost = self._cost(node)
        return 0 if cost is None else cost.nanoseconds

    def _cost(self, node: fx.Node) -> OperatorCost | None:
        if node.name not in self.costs:
            self.costs[node.name] = MEASURED_COSTS.of(node) if allocated_tensors(node) else None
        return self.costs[node.name]

    def _saved(self, bans: Mapping[str, bool], reductions: bool, again: Collection[fx.Node]) -> list[fx.Node]:
        """What is kept from the forward to the backward pass where some nodes may be recomputed."""
        from torch._functorch import partitioners as own

        options = own.MinCutOptions(ban_if_reduction=reductions, **bans)
        return own.solve_min_cut(self.graph, self.info, options, own.OrderedSet(again))[0]

    def _parted(self, saved: Sequence[fx.Node]) -> tuple[fx.Graph, fx.Graph, int]:
        """Part the graph as PyTorch's partitioner does, and count the outputs of the forward pass."""
        from torch._functorch import partitioners as own
        from torch.utils._pytree import arg_tree_leaves

        outputs = len(arg_tree_leaves(*self.graph.output_node().args)) - len(self.info.inputs)
        forward, backward = own._extract_fwd_bwd_modules(
            self.module, list(saved), saved_sym_nodes=[], saved_opaque_nodes=[], num_fwd_outputs=outputs,
            static_lifetime_input_nodes=self.info.static_lifetime_input_nodes,
        )  # fmt: skip
        backward = own.raise_getitems(own.reordering_to_mimic_autograd_engine(backward))
        return own.raise_getitems(forward).graph, backward.graph, outputs
