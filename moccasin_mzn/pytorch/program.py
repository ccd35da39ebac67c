"""From a sequence of computations to the instructions of a plan, views next to the computations that read them."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from moccasin_mzn.graphs.importers.torch.nodes import BATCH_NORMS, is_masked, mask_position, schema_of, viewed_argument
from moccasin_mzn.pytorch import devices, offloading
from moccasin_mzn.pytorch.computations import ALL, Computation, Computations, Member, Root, number_of_item
from moccasin_mzn.pytorch.devices import device_of, given_out
from moccasin_mzn.pytorch.gradients import added_to_grad
from moccasin_mzn.pytorch.instructions import Instruction, Linear, Storage, Value, needed, settled, shared
from moccasin_mzn.pytorch.joint import PARAMETER
from moccasin_mzn.pytorch.problem import Accumulation, Cut

if TYPE_CHECKING:
    import torch
    from torch import fx
    from torch.fx.node import Target
    from torch.utils._pytree import PyTree

    _Args = tuple[PyTree, ...]
    _Kwargs = dict[str, PyTree]

_MOST_GROUPS = 8


@dataclass(frozen=True, eq=False)
class Copied:
    """All that a computation has made is written to host memory, or read back from there."""

    what: Computation
    back: bool


Meaning = Computation | Copied | Cut | Accumulation | Root | None


Workspace = Callable[["fx.Node", Sequence[bool] | None], int]
"""Bytes that a traced operator takes while it runs, with a mask of the outputs to make instead of its own."""


def linear(
    program: Computations, sequence: Sequence[Meaning], workspace: Workspace | None = None, *,
    states_as_tensors: bool = False,
) -> Linear:  # fmt: skip
    """The instructions of a sequence of computations, in which the cut and what it reads stand before the tangents.

    Args:
        workspace: None: operators take none.
        states_as_tensors: so that states of the generator may be handed from the forward to the backward pass where
            only tensors may be; they then take memory.
    """
    return _Writer(program, sequence, workspace or (lambda node, mask: 0), states_as_tensors).run()


class _Writer:
    def __init__(
        self, program: Computations, sequence: Sequence[Meaning], workspace: Workspace, states_as_tensors: bool
    ) -> None:
        self.program, self.sequence, self.workspace = program, sequence, workspace
        self.states_as_tensors = states_as_tensors
        self.calls = _calls(sequence)
        self.instructions: list[Instruction] = []
        self.store: dict[Computation, dict[Root, Value]] = {}
        self.slow: dict[Computation, dict[Root, Value]] = {}
        """What is written to host memory."""
        self.states: dict[fx.Node, Value] = {}
        """States of the generator, before a node has drawn from it."""
        self.called: set[fx.Node] = set()
        self.given: dict[fx.Node, Value] = {}
        self.added: dict[fx.Node, Value] = {}
        self.taken: set[Storage | None] = set()
        """Storages of outputs and gradients."""
        self.initial: dict[Root, Value] = {}
        """The memory that is given, buffers that will be overwritten as copies."""
        for roots in program.roots.values():
            for root in roots.values():
                if root.given is not None and root not in self.initial:
                    value = Value(Storage(root.bytes, root.given.kind), root.node, root.value)
                    self.initial[root] = self.given[root.node] = value

    def run(self) -> Linear:
        joint = self.program.joint
        self._snapshots()
        at, forward, outputs = 0, list[Instruction](), tuple[Value, ...]()
        while at < len(self.sequence):
            each = self.sequence[at]
            together = _one_call(self.sequence[at : at + _MOST_GROUPS])
            if together:
                self._compute(together)
            elif isinstance(each, Copied):
                (self._read_back if each.back else self._write_out)(each.what)
            elif isinstance(each, Cut):
                outputs = tuple(self._output(node) for node in joint.outputs)
                self.taken = {value.storage for value in outputs}
                for root, made in self.program.written_back.items():
                    self._write_back(root, made)
                forward, self.instructions = self.instructions, []
            elif isinstance(each, Accumulation):
                self._accumulate(each)
            at += max(1, len(together))
        gradients = self._gradients()
        results = [value for value in gradients if value is not None]
        backward = shared(needed(self.instructions, results), results)
        results = [*outputs, *(value for instruction in backward for value in instruction.reads)]
        forward = shared(needed(forward, results), results)
        forward, backward = settled(forward, backward)
        return Linear(tuple(forward), outputs, tuple(backward), gradients, self.given, self.added)

    # --- what is given, and what is returned ----------------------------------------------------------------------

    def _snapshots(self) -> None:
        """Copies of buffers that are overwritten at the cut, where something reads their former values."""
        back = self.program.written_back
        readers = [member for made in self.program.all for member in made.members]
        for root in back:
            if any(
                root in self.program.reads[member.node]
                and self.program.reads[member.node][root] is None
                and root not in member.copied
                for member in readers
            ):
                self.initial[root] = self._clone(self.initial[root], root)

    def _output(self, node: fx.Node) -> Value:
        import torch

        value = self._resolve(node, self.program.outputs.__getitem__, {}, {})
        return self._emit(torch.ops.aten.detach.default, (value,), {}, Value(value.storage, fake=value.fake))

    def _write_back(self, root: Root, made: Computation) -> None:
        import torch

        value = self._fetch(root, made, {})
        buffer = self.given[root.node]
        self._emit(torch.ops.aten.copy_.default, (buffer, value), {}, Value(None))

    def _accumulate(self, each: Accumulation) -> None:
        """A gradient goes to `.grad`, its own memory if there is none and nothing else refers to it."""
        value = self._resolve(each.gradient, self.program.final.__getitem__, {}, {})
        fake, form = each.gradient.meta["val"], self.program.joint.given[each.parameter].form
        own = value.storage is not None and value.storage.given is None and value.storage not in self.taken
        own = own and tuple(fake.stride()) == form.stride
        grad = value.storage if own else Storage(_dense_bytes(fake))
        self.taken.add(grad)
        self.added[each.parameter] = Value(None, each.parameter)
        args = (self.added[each.parameter], value, own)
        self.instructions.append(Instruction(added_to_grad, args, {}, Value(None), grad=grad))

    def _gradients(self) -> tuple[Value | None, ...]:
        """Each in memory of its own, laid out as autograd wants it: then it is taken, not copied."""
        import torch

        aten = torch.ops.aten
        found: list[Value | None] = []
        for node, wanted in zip(self.program.joint.gradients, self.program.joint.wanted, strict=True):
            if node is None or wanted in self.added:
                found.append(None)
                continue
            value = self._resolve(node, self.program.final.__getitem__, {}, {})
            fake, given = node.meta["val"], self.program.joint.given[wanted]
            if (given.kind == PARAMETER or given.leaf) and tuple(fake.stride()) != given.form.stride:
                storage = Storage(_dense_bytes(fake))
                empty = self._emit(
                    aten.new_empty_strided.default, (value, list(given.form.shape), list(given.form.stride)), {},
                    Value(storage), (storage,),
                )  # fmt: skip
                value = self._emit(aten.copy_.default, (empty, value), {}, Value(storage, fake=fake))
            elif value.storage is None or value.storage.given is not None or value.storage in self.taken:
                storage = Storage(_dense_bytes(fake))
                value = self._emit(aten.clone.default, (value,), {}, Value(storage, fake=fake), (storage,))
            self.taken.add(value.storage)
            found.append(value)
        return tuple(found)

    # --- computations ---------------------------------------------------------------------------------------------

    def _compute(self, together: Sequence[Computation]) -> None:
        """An instance of a computation, or of several that one call of a node makes."""
        local: dict[Root, Value] = {}
        for at, member in enumerate(together[0].members):
            outputs = tuple(number for made in together for number in made.members[at].outputs)
            self._call(Member(member.node, outputs, member.copied), local)
        for made in together:
            self.store[made] = {root: local[root] for root in made.makes}

    def _call(self, member: Member, local: dict[Root, Value]) -> None:
        node = member.node
        reads = self.program.reads[node]
        views: dict[fx.Node, Value] = {}
        for root in member.copied:
            local[root] = self._clone(self._fetch(root, reads[root], {}), root)
        args, kwargs = self._arguments(
            (node.args, dict(node.kwargs)), lambda read: self._resolve(read, reads.__getitem__, local, views)
        )
        mask = None if node.name in self.program.unsplit else _mask(node, member.outputs)
        if mask is not None:
            args = _with_mask(node, args, mask)
        statistics = schema_of(node).name in BATCH_NORMS and any(root in self.program.in_place for root in reads)
        if statistics and node in self.called:
            args = (*args[:3], None, None, *args[5:])
        target, args, kwargs = self._random(node, args, kwargs)
        self.called.add(node)
        call = self._results(member, target, args, kwargs, local)
        call.workspace = self.workspace(node, mask)
        if target is devices.replayed:
            call.workspace = max(call.workspace, devices.state_bytes(device_of(node)))

    def _random(self, node: fx.Node, args: _Args, kwargs: _Kwargs) -> tuple[Target, _Args, _Kwargs]:
        if not devices.draws(node) or self.calls[node] < 2:
            return node.target, args, kwargs
        if node not in self.called:
            self.states[node] = self._state(device_of(node))
            return node.target, args, kwargs
        state = self.states[node]
        if devices.takes_generator(node):
            generator = self._emit(devices.copy_of, (state, device_of(node)), {}, Value(None))
            return node.target, args, {**kwargs, "generator": generator}
        return devices.replayed, (state, device_of(node), node.target, *args), kwargs

    def _state(self, device: str) -> Value:
        if not self.states_as_tensors:
            return self._emit(devices.state_now, (device,), {}, Value(None))
        like = next(iter(self.initial.values())).fake
        assert like is not None
        fake = devices.like_state(like, device)
        storage = Storage(devices.state_bytes(device))
        return self._emit(devices.state_tensor, (device,), {}, Value(storage, fake=fake), (storage,))

    def _results(
        self, member: Member, target: Target, args: _Args, kwargs: _Kwargs, local: dict[Root, Value]
    ) -> Instruction:
        """The call, its outputs one by one."""
        node, at = member.node, len(self.instructions)
        if node in self.program.aliases or not self.program.roots.get(node):
            self._emit(target, args, kwargs, Value(None), node=node)
            return self.instructions[at]
        roots = self.program.roots[node]
        if is_masked(node) and member.outputs and node.name not in self.program.unsplit:  # others are not made
            roots = {number: root for number, root in roots.items() if number in member.outputs}
        storages = {number: Storage(root.allocated) for number, root in roots.items()}
        if isinstance(node.meta.get("val"), (tuple, list)):
            whole = self._emit(target, args, kwargs, Value(None), tuple(storages.values()), node=node)
            for number, storage in storages.items():
                value = self._emit(
                    operator.getitem, (whole, number), {}, Value(storage, fake=roots[number].value), pure=True
                )
                local[roots[number]] = value
            return self.instructions[at]
        value = self._emit(
            target, args, kwargs, Value(storages[ALL], fake=roots[ALL].value), (storages[ALL],), node=node
        )
        if storages[ALL].bytes != roots[ALL].bytes:
            value = self._clone(value, roots[ALL])
        local[roots[ALL]] = value
        return self.instructions[at]

    def _clone(self, value: Value, root: Root) -> Value:
        import torch

        storage = Storage(root.bytes)
        return self._emit(
            torch.ops.aten.clone.default, (value,), {}, Value(storage, fake=value.fake), (storage,), pure=True
        )

    # --- host memory ----------------------------------------------------------------------------------------------

    def _write_out(self, made: Computation) -> None:
        self.slow[made] = {}
        for root, value in self.store[made].items():
            storage = Storage(_room(value), slow=True)
            slow = self._emit(offloading.write_out, (value,), {}, Value(storage), (storage,), pure=True)
            self.slow[made][root] = slow

    def _read_back(self, made: Computation) -> None:
        self.store[made] = {}
        for root, slow in self.slow[made].items():
            storage = Storage(_room(slow))
            value = self._emit(offloading.read_back, (slow,), {}, Value(storage), (storage,), pure=True)
            self.store[made][root] = value

    # --- values ---------------------------------------------------------------------------------------------------

    def _arguments(self, arguments: PyTree, value: Callable[[fx.Node], Value]) -> PyTree:
        from torch import fx

        if isinstance(arguments, fx.Node):
            return value(arguments)
        if isinstance(arguments, tuple):
            return tuple(self._arguments(each, value) for each in arguments)
        if isinstance(arguments, list):
            return [self._arguments(each, value) for each in arguments]
        if isinstance(arguments, dict):
            return {name: self._arguments(each, value) for name, each in arguments.items()}
        return arguments

    def _resolve(
        self, node: fx.Node, version: Callable[[Root], Computation | None], local: dict[Root, Value],
        views: dict[fx.Node, Value],
    ) -> Value:  # fmt: skip
        """The value of a traced node as one who reads it now sees it: views of the latest version, made again."""
        from torch import fx

        program = self.program

        def resolve(node: fx.Node) -> Value:
            if node in views:
                return views[node]
            base = node.args[0] if node.target is operator.getitem else None
            number = number_of_item(node) if base is not None else ALL
            if isinstance(base, fx.Node) and base in program.reads:
                if base in program.aliases:
                    return resolve(program.aliases[base][number])
                root = program.roots[base][number]
                return self._fetch(root, version(root), local)
            if node in program.aliases:
                return resolve(program.aliases[node][ALL])
            if node in program.reads or node.op != "call_function":
                root = program.roots[node][ALL]
                return self._fetch(root, version(root), local)
            viewed = viewed_argument(node)
            assert viewed is not None
            whole = resolve(viewed)
            args, kwargs = self._arguments((node.args, dict(node.kwargs)), lambda _: whole)
            views[node] = self._emit(
                node.target, args, kwargs, Value(whole.storage, fake=node.meta.get("val")), pure=True
            )
            return views[node]

        return resolve(node)

    def _fetch(self, root: Root, made: Computation | None, local: dict[Root, Value]) -> Value:
        if root in local:
            return local[root]
        if made is None:
            return self.initial[root]
        assert made in self.store, f"{made.name} is read before it is computed"
        return self.store[made][root]

    def _emit(
        self, target: Target, args: _Args, kwargs: _Kwargs, value: Value, makes: tuple[Storage, ...] = (), *,
        pure: bool = False, node: fx.Node | None = None,
    ) -> Value:  # fmt: skip
        self.instructions.append(Instruction(target, args, kwargs, value, makes, pure=pure, node=node))
        return value


def _one_call(sequence: Sequence[Meaning]) -> list[Computation]:
    """The computations at the beginning of a sequence that one call makes: groups of outputs of the same node."""
    found: list[Computation] = []
    for each in sequence:
        if not isinstance(each, Computation) or each in found:
            break
        if found and not len(found[0].members) == len(each.members) == 1:
            break
        if found and found[0].members[0].node is not each.members[0].node:
            break
        found.append(each)
    return found


def _calls(sequence: Sequence[Meaning]) -> dict[fx.Node, int]:
    """How often each node is called, at most."""
    found: dict[fx.Node, int] = {}
    for each in sequence:
        if isinstance(each, Computation):
            for member in each.members:
                found[member.node] = found.get(member.node, 0) + 1
    return found


def _mask(node: fx.Node, outputs: Sequence[int]) -> list[bool] | None:
    """The mask of those outputs only that are made; None where all are, or there is no mask."""
    at = mask_position(node)
    if at is None or not outputs:
        return None
    traced: PyTree = node.args[at]
    return [made and number in outputs for number, made in enumerate(traced)]


def _with_mask(node: fx.Node, args: _Args, mask: list[bool]) -> _Args:
    at = mask_position(node)
    assert at is not None
    return (*args[:at], mask, *args[at + 1 :])


def _dense_bytes(fake: torch.Tensor) -> int:
    """Return the bytes of a copy of a tensor."""
    return given_out(fake.numel() * fake.element_size(), str(fake.device))


def _room(value: Value) -> int:
    """Bytes of all the memory that a value is in."""
    return value.storage.bytes if value.storage is not None else 0
