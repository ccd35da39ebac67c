"""What each operator of a traced network takes, its workspace included, without running the network.

The operators are called one by one, on tensors made for that, so that it takes no more memory than the largest of them.
"""

from __future__ import annotations

import contextlib
import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from moccasin_mzn.graphs.importers.torch_memory import STATE, Member
from moccasin_mzn.graphs.importers.torch_nodes import (
    allocated_tensors,
    group_bytes,
    is_masked,
    viewed_argument,
    with_mask,
)
from moccasin_mzn.graphs.importers.torch_profile import REPEATS, member_shares, no_denormals, real_tensor
from moccasin_mzn.graphs.importers.torch_trace import quiet
from moccasin_mzn.pytorch.devices import device_of, forked_random_state
from moccasin_mzn.pytorch.measuring import nanoseconds_of, peak_and_held

if TYPE_CHECKING:
    from torch import fx


_ENOUGH = 0.5
"""Seconds after which an operator is not called once more."""
_SHORTEST = 50_000
"""Nanoseconds: short calls are timed so many at once that they take about as long."""


@dataclass(frozen=True)
class OperatorCost:
    """What one call of an operator takes, or one operation of several."""

    nanoseconds: int
    """CPU time of the calling thread, the median of several calls."""
    workspace: int
    """Bytes that it takes at the worst beside its inputs and the outputs that the operation keeps."""
    held: int = 0
    """Of an operator: bytes that it leaves given out, the storages of its outputs."""
    measured: bool = True
    """False: it could not be called on tensors made for that, and its time is told by the bytes it reads and writes."""


@dataclass
class OperatorCosts:
    """Costs of operators by what tells calls apart: a table to measure each but once, for several networks too."""

    known: dict[object, OperatorCost | None] = field(default_factory=dict)
    """None: the call failed."""

    def of(self, node: fx.Node, mask: Sequence[bool] | None = None) -> OperatorCost | None:
        """What a traced operator costs, its workspace beside all its outputs; None if it cannot be called.

        Args:
            mask: instead of its own `output_mask`.
        """
        self.measure([(node, mask)])
        return self.known[_Call.of(node, mask).key]

    def measure(self, wanted: Iterable[tuple[fx.Node, Sequence[bool] | None]], repeats: int = REPEATS) -> None:
        """Measure what is not known yet, in turns, so that a machine that is slower for a while is so for all."""
        calls = {call.key: call for call in (_Call.of(node, mask) for node, mask in wanted)}
        new = [call for key, call in calls.items() if key not in self.known]
        for _ in range(max(1, repeats)):
            for call in new:
                call.sample()
        self.known.update((call.key, call.cost) for call in new)


def measure_operators(
    nodes: Iterable[fx.Node],
    members: Mapping[str, Sequence[Member]],
    *,
    repeats: int = REPEATS,
    costs: OperatorCosts | None = None,
) -> dict[str, OperatorCost]:
    """What each operation of a traced network takes on this machine, with the threads and libraries that are set now.

    Args:
        nodes: of the traced graph.
        members: traced nodes of each operation, see `torch_memory.Accounted`.
        costs: what is known already, added to.

    Returns:
        By operation. Groups of outputs that can be computed alone share the operator's time as in `torch_profile`, of
        others the first has all. The workspace of an operation of several operators is the largest of theirs.
    """
    by_name = {node.name: node for node in nodes}
    costs = costs if costs is not None else OperatorCosts()
    with prepared():
        called = dict.fromkeys(member for operation in members.values() for member in operation)
        costs.measure(
            ((by_name[each.node], mask) for each in called for mask in _masks(by_name[each.node], each)), repeats
        )
        whole = {each.node: costs.of(by_name[each.node]) for each in called}
        rate = nanoseconds_per_byte((by_name[each.node] for each in called), costs)
        found = {}
        for name, shares in member_shares(members, by_name).items():
            nanoseconds, workspaces = 0.0, []
            for member, share in shares:
                node, cost = by_name[member.node], whole[member.node]
                one = rate * _bytes_touched(node) if cost is None else cost.nanoseconds
                nanoseconds += _share(node, member, share) * one
                workspaces.append(_workspace(node, member, cost, costs))
            all_measured = all(whole[member.node] is not None for member, _ in shares)
            found[name] = OperatorCost(max(1, round(nanoseconds)), max(workspaces), measured=all_measured)
    return found


def unexpected_bytes(nodes: Iterable[fx.Node], costs: OperatorCosts) -> dict[str, int]:
    """Where operators that are measured keep other storages than the trace says: by traced node, bytes more (or less).

    What is found here makes every prediction of memory wrong by as much; see `torch_storages` for what is known.
    """
    found = {}
    with prepared():
        for node in nodes:
            if node.op != "call_function" or viewed_argument(node) is not None:
                continue
            cost = costs.of(node)
            expected = group_bytes(node, range(len(_output_values(node)))) if allocated_tensors(node) else 0
            if cost is not None and expected is not None and cost.held != expected:
                found[node.name] = cost.held - expected
    return found


@contextlib.contextmanager
def prepared() -> Iterator[None]:
    """Meanwhile operators can be measured: `OperatorCosts` asks for it."""
    import torch

    with quiet(), forked_random_state(), torch.no_grad(), no_denormals():
        yield


def _output_values(node: fx.Node) -> Sequence[Any]:
    values = node.meta.get("val")
    return values if isinstance(values, (tuple, list)) and all(value is not None for value in values) else ()


@dataclass
class _Call:
    """A call of an operator as in a trace, and what has been measured of it."""

    target: Callable[..., Any]
    args: Any
    kwargs: Any
    key: object
    device: str = "cpu"
    workspace: int | None = None
    held: int = 0
    samples: list[float] = field(default_factory=list)
    """Nanoseconds of this thread, or of another device."""
    spent: float = 0
    """Seconds."""
    failed: bool = False

    @classmethod
    def of(cls, node: fx.Node, mask: Sequence[bool] | None) -> _Call:
        args, kwargs = (node.args, node.kwargs) if mask is None else with_mask(node, mask)
        return cls(node.target, args, kwargs, _key(node, args, kwargs), device_of(node))  # type: ignore[arg-type, unused-ignore]

    @property
    def cost(self) -> OperatorCost | None:
        if self.failed or self.workspace is None:
            return None
        return OperatorCost(max(1, round(statistics.median(self.samples))), self.workspace, self.held)

    def sample(self) -> None:
        """Call the operator on tensors like those of the trace, once more if that takes not too long."""
        if self.failed or self.spent > _ENOUGH:
            return
        began = time.monotonic()
        try:
            args, kwargs = self._made()
            self.target(*args, **kwargs)  # the first call may prepare something that is kept
            if self.workspace is None:
                peak, self.held = peak_and_held(lambda: self.target(*args, **kwargs), self.device)
                self.workspace = max(0, peak - self.held)
            self.samples.append(_nanoseconds(lambda: self.target(*args, **kwargs), self.device))
        except Exception:  # on made-up numbers: indices out of range, lengths that do not fit
            self.failed = True
        self.spent += time.monotonic() - began

    def _made(self) -> Any:
        from torch import fx

        made: dict[fx.Node, Any] = {}

        def real(node: fx.Node) -> Any:
            if node not in made:
                made[node] = _real(node.meta.get("val"))
            return made[node]

        return fx.node.map_arg((self.args, self.kwargs), real)


def _nanoseconds(call: Callable[[], object], device: str) -> float:
    """CPU time of this thread for a call, of many for a short one; of another device until it has done all."""
    calls = 1
    while True:
        start = nanoseconds_of(device)
        for _ in range(calls):
            call()
        took = nanoseconds_of(device) - start
        if calls > 1 or took >= _SHORTEST:
            return took / calls
        calls = 1 + _SHORTEST // max(took, 1000)


def _real(value: Any) -> Any:
    import torch
    from torch.utils._pytree import tree_map

    return tree_map(lambda leaf: real_tensor(leaf, STATE) if isinstance(leaf, torch.Tensor) else leaf, value)


def _key(node: fx.Node, args: Any, kwargs: Any) -> object:
    """What tells calls apart: the operator, shapes, strides and types of its arguments, which of them are the same
    tensor, its constants, and how PyTorch is set to compute.
    """
    import torch
    from torch import fx
    from torch.utils._pytree import tree_flatten

    leaves, shape = tree_flatten((args, dict(kwargs)), is_leaf=lambda leaf: isinstance(leaf, (fx.Node, slice)))
    seen: dict[fx.Node, int] = {}
    parts: list[object] = []
    for leaf in leaves:
        if isinstance(leaf, fx.Node):
            parts.append((seen.setdefault(leaf, len(seen)), _likeness(leaf.meta.get("val"))))
        else:
            parts.append((type(leaf).__name__, repr(leaf)))
    settings = torch.get_num_threads(), torch.backends.mkldnn.enabled
    return str(node.target), tuple(parts), str(shape), settings


def _likeness(value: Any) -> object:
    import torch
    from torch.utils._pytree import tree_leaves

    return tuple(
        (tuple(leaf.shape), leaf.stride(), str(leaf.dtype), str(leaf.device))
        if isinstance(leaf, torch.Tensor)
        else repr(leaf)
        for leaf in tree_leaves(value)
    )


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
    """True for the group of outputs that the others are beside: it has the largest one."""
    sizes = {at: group_bytes(node, (at,)) or 0 for at in (*_others(node, member), *member.outputs)}
    return max(sizes, key=lambda at: (sizes[at], -at)) in member.outputs


def _share(node: fx.Node, member: Member, share: float) -> float:
    """Of an operator's time: without a mask all that it makes is made with the first group, and once more with it."""
    return share if is_masked(node) or not _others(node, member) else float(_is_first(node, member))


def _workspace(node: fx.Node, member: Member, cost: OperatorCost | None, costs: OperatorCosts) -> int:
    """What the operator takes beside the outputs that an operation keeps of it.

    Without a mask the first group is made with all the others, and these are made together with it. With one it is told
    which to make; but where the groups are computed one after the other, it is called once for all, when the first is
    in memory.
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


def nanoseconds_per_byte(nodes: Iterable[fx.Node], costs: OperatorCosts) -> float:
    """Of what operators read and write: the median of those that could be measured, 1 if none could."""
    pairs = ((costs.of(node), _bytes_touched(node)) for node in nodes)
    return statistics.median([cost.nanoseconds / touched for cost, touched in pairs if cost and touched] or [1.0])
