"""The computation that makes each version of each piece of memory: a traced step as a program without side effects. ::

    y = conv(x); y.relu_(); z = y * 2; y.add_(1)

    conv + relu_  makes y                 fused: nothing has read y in between
    mul           reads y of conv + relu_
    add_          reads y of conv + relu_, makes y again, in a copy

Every memory, a `Root`, is allocated by one traced node or given (a parameter, an input). Who overwrites it makes a new
version, in a copy unless nothing has read the old one, so that any computation can be repeated at any time. What is
written to buffers is a version too, and goes back into the buffer once, at the end of the forward pass; but a batch
norm whose running statistics nothing else reads updates them in place, the first time it is computed.
"""

from __future__ import annotations

import operator
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from moccasin_mzn.graphs.importers.torch.nodes import (
    BATCH_NORMS,
    allocated_tensors,
    is_masked,
    needed_nodes,
    output_groups,
    schema_of,
    storage_bytes,
    storage_elements,
    viewed_argument,
    written_arguments,
)
from moccasin_mzn.pytorch.devices import communicates, draws, given_out
from moccasin_mzn.pytorch.errors import UntraceableError
from moccasin_mzn.pytorch.joint import BUFFER, INPUT, TANGENT, Joint, Placeholder, where
from moccasin_mzn.pytorch.values import is_check

if TYPE_CHECKING:
    import torch
    from torch import fx
    from torch.utils._pytree import PyTree

ALL = -1
"""The number of the output of a node that has only one."""
_READS_STATISTICS: dict[str, int | None] = {
    **dict.fromkeys(BATCH_NORMS, 5), "aten::native_batch_norm_backward": 7,
    "aten::cudnn_batch_norm_backward": None, "aten::miopen_batch_norm_backward": None,
}  # fmt: skip
"""Operators whose arguments 3 and 4 are running statistics; the place of `training`, None: they are for training."""


@dataclass(eq=False)
class Root:
    """A memory: what a traced node allocates for one of its outputs, or what is given."""

    node: fx.Node
    output: int = ALL
    given: Placeholder | None = None

    @property
    def value(self) -> torch.Tensor:
        """The fake tensor that it was allocated as."""
        made = self.node.meta["val"]
        return made if self.output == ALL else made[self.output]

    @property
    def bytes(self) -> int:
        """The bytes that its device gives out for it."""
        return given_out(storage_bytes(self.value), str(self.value.device))

    @property
    def allocated(self) -> int:
        """Bytes, where a run allocates more than the trace shows as well."""
        elements = storage_elements(self.node, None if self.output == ALL else self.output)
        return max(self.bytes, given_out(elements * self.value.element_size(), str(self.value.device)))


@dataclass(frozen=True, eq=False)
class Member:
    """A traced node of a computation."""

    node: fx.Node
    outputs: tuple[int, ...]
    """The values that the computation makes; empty: all."""
    copied: tuple[Root, ...] = ()
    """What the node overwrites; the computation takes a copy of it first."""


@dataclass(eq=False)
class Computation:
    """What is computed as one, by nodes that run one after the other."""

    members: list[Member]
    inputs: dict[Computation, None]
    """Whose versions it reads, in the order of reading."""
    makes: list[Root]
    backward: bool
    once: bool = False
    """The computation may not be repeated."""
    read: bool = field(default=False, repr=False)

    @property
    def name(self) -> str:
        first = self.members[0]
        return first.node.name + "".join(f"_{output}" for output in first.outputs[:1] if first.outputs[0] != 0)


@dataclass(frozen=True, eq=False)
class Computations:
    """A traced step."""

    joint: Joint
    all: tuple[Computation, ...]
    """In the order of execution."""
    reads: dict[fx.Node, dict[Root, Computation | None]] = field(repr=False)
    """For each node that computes, the version of each memory that it reads, by who made it; None: what was given."""
    roots: dict[fx.Node, dict[int, Root]] = field(repr=False)
    """The memories that the value of a node is in, by the number of its output."""
    aliases: dict[fx.Node, dict[int, fx.Node]] = field(repr=False)
    """For a node that overwrites: the nodes that its outputs are."""
    final: dict[Root, Computation | None] = field(repr=False)
    """The last version of each memory."""
    outputs: dict[Root, Computation | None] = field(repr=False)
    """The version of the memories that outputs are in, at the end of the forward pass."""
    in_place: frozenset[Root] = frozenset()
    """Running statistics that batch norms update in place."""
    unsplit: frozenset[str] = frozenset()
    """Names of backward operators whose one call makes all their gradients, which are memory of their own even so."""

    @property
    def written_back(self) -> dict[Root, Computation]:
        """Buffers that are overwritten, and who made what they are to hold."""
        return {root: made for root, made in self.final.items() if made is not None and _of(root, BUFFER)}


def computations(joint: Joint, unsplit: Collection[str] = ()) -> Computations:
    """Follow the memory through a traced step.

    Args:
        unsplit: names of backward operators that make all their gradients at once, see `OperatorCosts.unsplit`.

    Raises:
        UntraceableError: it overwrites what a plan cannot give back, or does what cannot be repeated.
    """
    return _Follower(joint, unsplit).run()


class _Follower:
    def __init__(self, joint: Joint, unsplit: Collection[str]) -> None:
        self.joint = joint
        self.unsplit = unsplit
        self.nodes = joint.nodes
        self.needed = needed_nodes(self.nodes)
        self.roots: dict[fx.Node, dict[int, Root]] = {}
        self.aliases: dict[fx.Node, dict[int, fx.Node]] = {}
        self.current: dict[Root, Computation | None] = {}
        self.reads: dict[fx.Node, dict[Root, Computation | None]] = {}
        self.order: dict[Computation, None] = {}
        self.latest_effect: Computation | None = None
        self.in_place: set[Root] = set()

    def run(self) -> Computations:
        at_cut: dict[Root, Computation | None] = {}
        for node in self.nodes:
            if node.op in ("placeholder", "get_attr"):
                root = Root(node, given=self.joint.given.get(node, _attribute(node)))
                self.roots[node] = {ALL: root}
                self.current[root] = None
                if _of(root, BUFFER) and _only_statistics(node):
                    self.in_place.add(root)
            elif node.op == "call_function":
                self._call(node)
                if node not in self.joint.backward:
                    at_cut = dict(self.current)
        self._check(at_cut)
        own = {root for node in self.joint.outputs for root in self.roots[node].values()}
        outputs = {root: at_cut.get(root) for root in own}
        for made in outputs.values():
            if made is not None:
                made.once = True
        return Computations(
            self.joint, tuple(self.order), self.reads, self.roots, self.aliases, self.current, outputs,
            frozenset(self.in_place), frozenset(self.unsplit),
        )  # fmt: skip

    def _check(self, at_cut: dict[Root, Computation | None]) -> None:
        for root, made in self.current.items():
            given = root.given
            if given is not None and given.kind == BUFFER and made is not at_cut.get(root):
                raise UntraceableError(f"the backward pass overwrites buffer '{given.name}': it cannot be planned")
        for node in self.joint.outputs:
            for root in self.roots[node].values():
                if self.current[root] is not at_cut.get(root):
                    raise UntraceableError(
                        f"the backward pass overwrites an output, {where(node)}: it cannot be planned"
                    )

    def _call(self, node: fx.Node) -> None:
        _check_operator(node)
        allocated = allocated_tensors(node)
        viewed = viewed_argument(node)
        arguments = written_arguments(node)
        written = list(dict.fromkeys(root for each in arguments for root in self._roots(each)))
        written = [root for root in written if root not in self.in_place]
        if not written and not allocated and viewed in self.roots:
            self._view(node, viewed)
            return
        read = list(dict.fromkeys(root for each in node.all_input_nodes for root in self._roots(each)))
        self.reads[node] = {root: self.current[root] for root in read}
        for root in written:
            _check_overwritten(root, node)
        previous = self._fusible(node, written)
        for root in read:
            made = self.current[root]
            if made is not None and made is not previous:
                made.read = True
        groups = self._groups(node)
        if previous is not None:
            making = [self._fuse(node, groups[0], previous)]
        else:
            making = [self._new(node, group, written, main=at == 0) for at, group in enumerate(groups)]
        self._bind(node, groups, making, bool(allocated), arguments, written)

    def _groups(self, node: fx.Node) -> list[tuple[int, ...]]:
        """The outputs that are computed together."""
        if not allocated_tensors(node):
            return [()]
        return output_groups(node, self.needed)

    def _roots(self, node: fx.Node) -> list[Root]:
        return list(self.roots.get(node, {}).values())

    def _view(self, node: fx.Node, viewed: fx.Node) -> None:
        if any(other is not viewed for other in node.all_input_nodes):
            raise UntraceableError(f"{where(node)} is a view by more than one tensor: it cannot be planned")
        roots = self.roots[viewed]
        if node.target is operator.getitem and len(roots) > 1:
            number = number_of_item(node)
            self.roots[node] = {ALL: roots[number]} if number in roots else {}
        else:
            self.roots[node] = {ALL: next(iter(roots.values()))} if roots else {}
        strided = getattr(schema_of(node), "name", "") == "aten::as_strided"
        if strided and any(root.given is not None for root in self._roots(node)):
            raise UntraceableError(f"{where(node)} reads a given tensor by its place in memory: it cannot be planned")

    def _fusible(self, node: fx.Node, written: Sequence[Root]) -> Computation | None:
        """The computation that a node which overwrites becomes part of, because nothing has read what that made."""
        if len(written) != 1:
            return None
        made = self.current[written[0]]
        if made is None or made.read or made.backward != (node in self.joint.backward):
            return None
        if len(self._groups(node)) > 1:
            return None
        effect = any(self._effect(member.node) for member in made.members)
        return None if effect and made is not self.latest_effect else made  # effects stay in their order

    def _effect(self, node: fx.Node) -> bool:
        """Does it take random numbers, update statistics in place, communicate, or compare what was read?"""
        statistics = any(root in self.in_place for each in written_arguments(node) for root in self._roots(each))
        return draws(node) or statistics or communicates(node) or is_check(node)

    def _fuse(self, node: fx.Node, group: Sequence[int], made: Computation) -> Computation:
        del self.order[made]
        self.order[made] = None
        made.members.append(Member(node, tuple(group)))
        made.inputs.update({each: None for each in self._inputs(node) if each is not made})
        if self._effect(node):
            self.latest_effect = made
        return made

    def _new(self, node: fx.Node, group: Sequence[int], written: Sequence[Root], main: bool) -> Computation:
        members = [Member(node, tuple(group), tuple(written))]
        made = Computation(members, dict.fromkeys(self._inputs(node)), [], node in self.joint.backward)
        made.once = (main and any(_of(root, BUFFER) for root in written)) or (not main and not is_masked(node))
        made.once |= is_check(node) or communicates(node) or node.name in self.unsplit
        self.order[made] = None
        if self._effect(node):
            self.latest_effect = made
        return made

    def _inputs(self, node: fx.Node) -> Iterable[Computation]:
        return [made for made in self.reads[node].values() if made is not None]

    def _bind(
        self,
        node: fx.Node,
        groups: Sequence[tuple[int, ...]],
        made: list[Computation],
        allocated: bool,
        arguments: list[fx.Node],
        written: Sequence[Root],
    ) -> None:
        """Note what the computations make."""
        import torch

        for root in written:
            self.current[root] = made[0]
            if root not in made[0].makes:
                made[0].makes.append(root)
            if _of(root, BUFFER):
                made[0].once = True
        value = node.meta.get("val")
        if allocated:
            own = self.roots.setdefault(node, {})
            tensors = enumerate(value) if isinstance(value, (tuple, list)) else [(ALL, value)]
            own.update({number: Root(node, number) for number, each in tensors if isinstance(each, torch.Tensor)})
            for number, root in own.items():  # empty outputs belong to the first
                owner = next((m for g, m in zip(groups, made, strict=True) if number in g), made[0])
                self.current[root] = owner
                owner.makes.append(root)
        elif isinstance(value, (tuple, list)):
            self.aliases[node] = dict(enumerate(arguments))
            self.roots[node] = {at: self._roots(each)[0] for at, each in enumerate(arguments)}
        elif arguments:
            self.aliases[node] = {ALL: arguments[0]}
            self.roots[node] = {ALL: self._roots(arguments[0])[0]}


def number_of_item(node: fx.Node) -> int:
    """Return which output of another node an `operator.getitem` takes."""
    number: PyTree = node.args[1]
    return number


def _of(root: Root, kind: str) -> bool:
    return root.given is not None and root.given.kind == kind


def _attribute(node: fx.Node) -> Placeholder | None:
    import torch

    from moccasin_mzn.pytorch.call import Form

    value = node.meta.get("val")
    if not isinstance(value, torch.Tensor):
        return None
    return Placeholder(str(node.target), "constant", Form.of(value))


def _only_statistics(node: fx.Node) -> bool:
    """Is a buffer read by batch norms in training only, as their running statistics?"""
    for user in node.users:
        schema = schema_of(user)
        if schema is None or schema.name not in _READS_STATISTICS:
            return False
        training = _READS_STATISTICS[schema.name]
        others = (each for at, each in enumerate(user.args) if at not in (3, 4))
        if not (training is None or user.args[training]) or any(each is node for each in others):
            return False
    return bool(node.users)


def _check_overwritten(root: Root, node: fx.Node) -> None:
    given = root.given
    if given is not None and given.kind == INPUT:
        raise UntraceableError(f"{given.name} is overwritten by {where(node)}: copy it first")
    if given is not None and given.kind not in (BUFFER, TANGENT):
        raise UntraceableError(f"{given.kind} '{given.name}' is overwritten by {where(node)}: it cannot be planned")
    value = root.value
    strides = sorted((stride, size) for stride, size in zip(value.stride(), value.shape, strict=True) if size > 1)
    expected = 1
    for stride, size in strides:
        if stride != expected:
            raise UntraceableError(f"{where(node)} overwrites a tensor with gaps in its memory: it cannot be planned")
        expected *= size


def _check_operator(node: fx.Node) -> None:
    import torch
    from torch.utils._pytree import tree_leaves

    schema = schema_of(node)
    made = (leaf for leaf in tree_leaves(node.meta.get("val")) if isinstance(leaf, torch.Tensor))
    if any(tensor.layout != torch.strided for tensor in made):
        raise UntraceableError(f"{where(node)} gives a tensor that is sparse: it cannot be planned")
    if schema is None:
        return
    if schema.name.startswith("c10d::"):
        raise UntraceableError(f"{where(node)} communicates with other processes in place: it cannot be planned")
    tags = getattr(node.target, "tags", ())
    if torch.Tag.inplace_view in tags and schema.name != "aten::detach_":
        raise UntraceableError(f"{where(node)} changes the shape of a tensor in place: it cannot be planned")
    if schema.name in ("aten::set_", "aten::resize_", "aten::resize_as_"):
        raise UntraceableError(f"{where(node)} changes the memory of a tensor in place: it cannot be planned")
