"""What each operator of a traced network takes, its workspace included, without running the network.

The operators are called one by one, on tensors made for that, so that it takes no more memory than the largest of them;
and in a process of its own, which may die of it (see `operator_worker`).
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from moccasin_mzn.base.clock import Deadline
from moccasin_mzn.base.formatting import count_text
from moccasin_mzn.graphs.importers.torch.graph import REPEATS, member_shares
from moccasin_mzn.graphs.importers.torch.memory import Member
from moccasin_mzn.graphs.importers.torch.nodes import (
    allocated_tensors,
    group_bytes,
    is_masked,
    needed_nodes,
    output_groups,
    viewed_argument,
    with_mask,
)
from moccasin_mzn.pytorch.devices import CPU, device_of
from moccasin_mzn.pytorch.errors import NoTimeError
from moccasin_mzn.pytorch.kept_costs import KEPT, KeptCosts, name_of
from moccasin_mzn.pytorch.operator_process import NO_DEADLINE, UNCALLED, OperatorCost, worker
from moccasin_mzn.pytorch.operator_worker import Argument, OperatorCall, OperatorSettings, TensorLike
from moccasin_mzn.pytorch.values import is_check

if TYPE_CHECKING:
    from torch import fx
    from torch.utils._pytree import PyTree


_COMPARING = OperatorCost(1, 0)
"""What comparing takes, next to nothing: on values made for measuring it would fail."""


@dataclass
class OperatorCosts:
    """Costs of operators by the key of a call: a table to measure each but once, for several networks too."""

    known: dict[object, OperatorCost | None] = field(default_factory=dict)
    """None: the call failed."""
    untimed: dict[object, OperatorCost] = field(default_factory=dict, repr=False)
    """Calls for which only the memory is known, for where there is no time now either."""
    crashing: set[tuple[str, ...]] = field(default_factory=set, repr=False)
    """Operators in which a process has crashed when they were to make only some of their outputs."""
    kept: KeptCosts | None = None
    """What earlier processes have measured, added to; None: it is not asked."""

    def forget_failures(self) -> None:
        """Forget which calls failed: there may have been too little memory or time for them, and more now."""
        found = {key: cost for key, cost in self.known.items() if cost is not None}
        self.known = {key: cost for key, cost in found.items() if cost.measured}
        self.untimed |= {key: cost for key, cost in found.items() if not cost.measured}

    def of(
        self, node: fx.Node, mask: Sequence[bool] | None = None, deadline: Deadline = NO_DEADLINE
    ) -> OperatorCost | None:
        """What a traced operator costs, its workspace in addition to all its outputs; None if it cannot be called.

        Args:
            mask: instead of its own `output_mask`.
        """
        self.measure([(node, mask)], deadline=deadline)
        return self.known[_key(node, mask)]

    def measure(
        self, wanted: Iterable[tuple[fx.Node, Sequence[bool] | None]], repeats: int = REPEATS,
        deadline: Deadline = NO_DEADLINE, end: Deadline = NO_DEADLINE,
    ) -> None:  # fmt: skip
        """Measure what is not known yet, in turns, so that a machine that is slower for a while is so for all, and
        what touches most memory first, as there may not be the time for all.

        Args:
            deadline: no operator is timed after it.
            end: none is called after it for the memory that it takes.

        Raises:
            NoTimeError: after the end there are operators whose memory is not known; what is known stays so.
        """
        calls = {_key(node, mask): (node, mask) for node, mask in wanted}
        self.known |= {key: _COMPARING for key, (node, _) in calls.items() if is_check(node)}
        self._take_kept({key: call for key, call in calls.items() if key not in self.known}, deadline)
        new = {key: call for key, call in calls.items() if key not in self.known}
        parts = {_operator(node): _crash_name(node) for node, mask in new.values() if mask is not None}
        crashed = self._crashed(parts)
        self.known |= {
            key: None for key, (node, mask) in new.items() if mask is not None and _operator(node) in crashed
        }
        new = {key: call for key, call in new.items() if key not in self.known}
        new = dict(sorted(new.items(), key=lambda item: -_bytes_touched(item[1][0])))
        if not new:
            return
        partly = [mask is not None for _, mask in new.values()]
        found = dict(zip(new, worker().measured(
            [_call(*call) for call in new.values()], max(1, repeats), deadline, end, partly, self.crashing
        ), strict=True))  # fmt: skip
        if self.kept is not None:
            self.kept.keep({parts[each]: (None, 0, 0) for each in (self.crashing - crashed) & set(parts)})
        unknown = {key for key, cost in found.items() if cost is UNCALLED and key not in self.untimed}
        found = {key: self.untimed.get(key) if cost is UNCALLED else cost for key, cost in found.items()}
        self.known |= {key: cost for key, cost in found.items() if key not in unknown}
        if self.kept is not None:
            known = {_name(key, new[key][0]): cost for key, cost in found.items() if cost is not None}
            self.kept.keep({
                name: (cost.nanoseconds if cost.measured else None, cost.workspace, cost.output_bytes)
                for name, cost in known.items()
            })  # fmt: skip
        if unknown:
            raise NoTimeError(
                f"the time limit was over when the memory that {count_text(len(unknown), 'operator')} of "
                f"{len(calls)} take was not known yet: ask for more time, or again, for what was measured is kept"
            )

    def _take_kept(self, calls: Mapping[object, tuple[fx.Node, Sequence[bool] | None]], deadline: Deadline) -> None:
        """Take what earlier processes have measured; what they had no time to time only if there is none now."""
        if self.kept is not None and calls:
            names = {key: _name(key, node) for key, (node, _) in calls.items()}
            for key, found in zip(names, self.kept.of(names.values()), strict=True):
                if found is not None:
                    took, workspace, output_bytes = found
                    self.untimed[key] = OperatorCost(took or 1, workspace, output_bytes, took is not None)
        for key in calls:
            cost = self.untimed.get(key)
            if cost is not None and (cost.measured or deadline.over()):
                self.known[key] = cost

    def unsplit(
        self, nodes: Sequence[fx.Node], deadline: Deadline = NO_DEADLINE, end: Deadline = NO_DEADLINE
    ) -> frozenset[str]:
        """Names of the traced backward operators that cannot make some of their gradients without the others.

        They receive a mask of those to make, but not every kernel is written for every choice: some end the process.
        After one crash no more calls of the operator are made, here and in later processes, and all of them are whole.
        """
        needed = needed_nodes(nodes)
        masks = {
            node: [[at in group for at in range(len(node.meta["val"]))] for group in groups]
            for node in nodes
            if node.op == "call_function" and is_masked(node) and len(groups := output_groups(node, needed)) > 1
        }
        self.measure(((node, mask) for node, every in masks.items() for mask in every), deadline=deadline, end=end)
        return frozenset(
            node.name for node, every in masks.items()
            if _operator(node) in self.crashing or any(self.known[_key(node, mask)] is None for mask in every)
        )  # fmt: skip

    def _crashed(self, names: Mapping[tuple[str, ...], str]) -> set[tuple[str, ...]]:
        """Operators of some in which a process has crashed, here or in an earlier process."""
        if self.kept is not None and names:
            found = self.kept.of(names.values())
            self.crashing |= {operator for operator, each in zip(names, found, strict=True) if each is not None}
        return self.crashing & set(names)


class QuickCosts(OperatorCosts):
    """Costs of operators, each called for the memory that it takes, where only workspaces are asked for."""

    def __init__(self) -> None:
        super().__init__(kept=KEPT)

    def measure(
        self, wanted: Iterable[tuple[fx.Node, Sequence[bool] | None]], repeats: int = 1,
        deadline: Deadline = NO_DEADLINE, end: Deadline = NO_DEADLINE,
    ) -> None:  # fmt: skip
        super().measure(wanted, 1, Deadline(0.0), end)


MEASURED_COSTS = OperatorCosts(kept=KEPT)
"""What has been measured in this process: plans of one network for several budgets and shapes measure it once."""


def _name(key: object, node: fx.Node) -> str:
    """The name of a call among what is kept; "": it is not kept, as only PyTorch's own operators stay the same."""
    namespace = getattr(node.target, "namespace", "")
    return name_of(key, device_of(node)) if namespace in ("aten", "prims") else ""


def _operator(node: fx.Node) -> tuple[str, ...]:
    """The name of a traced operator, as calls have it."""
    call = _call(node, None)
    return () if call is None else call.operator


def _crash_name(node: fx.Node) -> str:
    """The name by which it is kept that a process has crashed in an operator; "": it is not kept."""
    return _name(("crash", *_operator(node), OperatorSettings.current()), node)


def _call(node: fx.Node, mask: Sequence[bool] | None) -> OperatorCall | None:
    """The call of a traced operator; None: it is not one of `torch.ops`."""
    import torch
    from torch import fx

    target = node.target
    if not isinstance(target, torch._ops.OpOverload):
        return None
    numbers: dict[fx.Node, int] = {}

    def standing(read: fx.Node) -> PyTree:
        return Argument(numbers.setdefault(read, len(numbers)))

    args, kwargs = fx.node.map_arg(_arguments(node, mask), standing)
    values = tuple(likeness(read.meta.get("val")) for read in numbers)
    namespace, name = target._schema.name.split("::")
    return OperatorCall((namespace, name, target._overloadname), plain(args), plain(kwargs), values, device_of(node))


def _arguments(node: fx.Node, mask: Sequence[bool] | None) -> tuple[PyTree, PyTree]:
    return (node.args, node.kwargs) if mask is None else with_mask(node, mask)


def plain(value: PyTree) -> PyTree:
    """Lists and dictionaries of `torch.fx` as those of Python."""
    if isinstance(value, (list, tuple)):
        return tuple(map(plain, value)) if isinstance(value, tuple) else [*map(plain, value)]
    return {key: plain(each) for key, each in value.items()} if isinstance(value, Mapping) else value


def likeness(value: PyTree) -> PyTree:
    """A value with a `TensorLike` for each tensor."""
    import torch
    from torch.utils._pytree import tree_map

    def like(leaf: object) -> object:
        if not isinstance(leaf, torch.Tensor):
            return leaf
        device = CPU if leaf.device.type == "meta" else str(leaf.device)  # such as seeds of attention on a GPU
        return TensorLike(tuple(leaf.shape), leaf.stride(), str(leaf.dtype).removeprefix("torch."), device)

    return tree_map(like, value)


def _key(node: fx.Node, mask: Sequence[bool] | None = None) -> object:
    """The key of a call: the operator, shapes, strides and types of its arguments, which of them are the same
    tensor, its constants, and how PyTorch is set to compute.
    """
    from torch import fx
    from torch.utils._pytree import tree_flatten

    args, kwargs = _arguments(node, mask)
    leaves, shape = tree_flatten((args, dict(kwargs)), is_leaf=lambda leaf: isinstance(leaf, (fx.Node, slice)))
    seen: dict[fx.Node, int] = {}
    parts: list[object] = []
    for leaf in leaves:
        if isinstance(leaf, fx.Node):
            parts.append((seen.setdefault(leaf, len(seen)), repr(likeness(leaf.meta.get("val")))))
        else:
            parts.append((type(leaf).__name__, repr(leaf)))
    return str(node.target), tuple(parts), str(shape), OperatorSettings.current()


# --- operations ------------------------------------------------------------------------------------------------


def measure_operators(
    nodes: Iterable[fx.Node],
    members: Mapping[str, Sequence[Member]],
    *,
    repeats: int = REPEATS,
    costs: OperatorCosts | None = None,
    deadline: Deadline = NO_DEADLINE,
    end: Deadline = NO_DEADLINE,
) -> dict[str, OperatorCost]:
    """What each operation of a traced network takes on this machine, with the threads and libraries that are set now.

    Args:
        nodes: of the traced graph.
        members: traced nodes of each operation, see `memory.Accounted`.
        costs: what is known already, added to.
        deadline: of timing; what is not timed then is estimated.
        end: of measuring what memory they take.

    Raises:
        NoTimeError: see `OperatorCosts.measure`.

    Returns:
        By operation. Groups of outputs that can be computed alone share the operator's time as in `torch.graph`, of
        others the first has all. The workspace of an operation of several operators is the largest of theirs.
    """
    by_name = {node.name: node for node in nodes}
    costs = costs if costs is not None else OperatorCosts()
    called = dict.fromkeys(member for operation in members.values() for member in operation)
    calls = [(by_name[each.node], mask) for each in called for mask in _masks(by_name[each.node], each)]
    costs.measure(calls, repeats, deadline, end)
    whole = {each.node: costs.of(by_name[each.node], None, deadline) for each in called}
    nodes = [by_name[each.node] for each in called]
    general, rates = nanoseconds_per_byte(nodes, costs), _rates(nodes, costs)
    found = {}
    for name, shares in member_shares(members, by_name).items():
        nanoseconds, workspaces = 0.0, []
        for member, share in shares:
            node, cost = by_name[member.node], whole[member.node]
            rate = rates.get(node.target, general)
            one = cost.nanoseconds if cost is not None and cost.measured else rate * _bytes_touched(node)
            nanoseconds += _share(node, member, share) * one
            workspaces.append(_workspace(node, member, cost, costs))
        all_measured = all(cost is not None and cost.measured for cost in (whole[each.node] for each, _ in shares))
        found[name] = OperatorCost(max(1, round(nanoseconds)), max(workspaces), measured=all_measured)
    return found


def unexpected_bytes(nodes: Iterable[fx.Node], costs: OperatorCosts) -> dict[str, int]:
    """Where operators that are measured keep other storages than in the trace: by traced node, bytes more (or less).

    What is found here makes every prediction of memory wrong by as much; see `torch_storages` for what is known.
    """
    found = {}
    for node in nodes:
        if node.op != "call_function" or viewed_argument(node) is not None:
            continue
        cost = costs.of(node)
        expected = group_bytes(node, range(len(_output_values(node)))) if allocated_tensors(node) else 0
        if cost is not None and expected is not None and cost.output_bytes != expected:
            found[node.name] = cost.output_bytes - expected
    return found


def _output_values(node: fx.Node) -> Sequence[object]:
    values = node.meta.get("val")
    return values if isinstance(values, (tuple, list)) and all(value is not None for value in values) else ()


def _others(node: fx.Node, member: Member) -> list[int]:
    """Outputs that the operator makes besides a group of them."""
    values = node.meta.get("val")
    if not member.outputs or not isinstance(values, (tuple, list)):
        return []
    return [at for at, value in enumerate(values) if value is not None and at not in member.outputs]


def _masks(node: fx.Node, member: Member) -> list[list[bool] | None]:
    """How an operation may call an operator: as it is, and where that can be for its own outputs only."""
    if not is_masked(node) or not _others(node, member):
        return [None]
    return [None, [at in member.outputs for at in range(len(node.meta["val"]))]]


def _is_first(node: fx.Node, member: Member) -> bool:
    """True for the main group of outputs: it has the largest one."""
    sizes = {at: group_bytes(node, (at,)) or 0 for at in (*_others(node, member), *member.outputs)}
    return max(sizes, key=lambda at: (sizes[at], -at)) in member.outputs


def _share(node: fx.Node, member: Member, share: float) -> float:
    """Return a share of an operator's time: without a mask all is made with the first group, and once more with it."""
    return share if is_masked(node) or not _others(node, member) else float(_is_first(node, member))


def _workspace(node: fx.Node, member: Member, cost: OperatorCost | None, costs: OperatorCosts) -> int:
    """What the operator takes in addition to the outputs that an operation keeps of it.

    Without a mask the first group is made with all the others, and these are made together with it. With one the call
    chooses which to make; but where the groups are computed one after the other, it is called once for all, when the
    first is in memory.
    """
    if cost is None:
        return 0
    others = _others(node, member)
    if not others:
        return cost.workspace
    if not is_masked(node):
        return cost.workspace + (group_bytes(node, others) or 0) if _is_first(node, member) else 0
    alone = costs.of(node, _masks(node, member)[1])
    here = alone.workspace if alone is not None else cost.workspace
    return here if 0 in member.outputs else max(here, cost.workspace)


def _bytes_touched(node: fx.Node) -> int:
    import torch
    from torch.utils._pytree import tree_leaves

    values = [node.meta.get("val"), *(read.meta.get("val") for read in node.all_input_nodes)]
    tensors = [leaf for leaf in tree_leaves(values) if isinstance(leaf, torch.Tensor)]
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def _rates(nodes: Iterable[fx.Node], costs: OperatorCosts) -> dict[object, float]:
    """The median time per byte of each operator whose calls could be measured."""
    calls: dict[object, list[fx.Node]] = {}
    for node in nodes:
        cost = costs.known.get(_key(node))
        if cost is not None and cost.measured:
            calls.setdefault(node.target, []).append(node)
    return {target: nanoseconds_per_byte(each, costs) for target, each in calls.items()}


def nanoseconds_per_byte(nodes: Iterable[fx.Node], costs: OperatorCosts) -> float:
    """Return the median time per byte of operators that could be measured, 1 if none could."""
    pairs = ((costs.of(node), _bytes_touched(node)) for node in nodes)
    return statistics.median(
        [cost.nanoseconds / touched for cost, touched in pairs if cost and cost.measured and touched] or [1.0]
    )
