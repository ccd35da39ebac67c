"""What each operator of a traced network takes, its workspace included, without running the network.

The operators are called one by one, on tensors made for that, so that it takes no more memory than the largest of them;
and in a process of its own, which may die of it (see `operator_worker`).
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import os
import pickle
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, Pipe
from typing import TYPE_CHECKING

from moccasin_mzn.clock import Deadline
from moccasin_mzn.environment import own_environment
from moccasin_mzn.formatting import count_text
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
from moccasin_mzn.log import note
from moccasin_mzn.pytorch.devices import CPU, device_of
from moccasin_mzn.pytorch.errors import NoTimeError
from moccasin_mzn.pytorch.kept_costs import KEPT, KeptCosts, name_of
from moccasin_mzn.pytorch.operator_worker import (
    Argument,
    Begun,
    Done,
    Failed,
    Findings,
    Job,
    Memory,
    OperatorCall,
    Ready,
    Sample,
    Settings,
    TensorLike,
)
from moccasin_mzn.pytorch.values import is_check

if TYPE_CHECKING:
    from torch import fx
    from torch.utils._pytree import PyTree


_BEGIN = "from moccasin_mzn.pytorch.operator_worker import main; main()"
"""Not run as a module: what is sent would be of the classes of another one, `__main__`."""
_NOTE_SECONDS = 2.0
"""Seconds between two notes on how far measuring is."""
_PATIENCE = 300.0
"""Seconds to wait for an operator, after which its process is killed."""
NO_DEADLINE = Deadline()
_GRACE = 0.5
"""Seconds after the end of a job for the call that is underway, after which its process is killed."""


@dataclass(frozen=True)
class OperatorCost:
    """What one call of an operator takes, or one operation of several."""

    nanoseconds: int
    """CPU time of the calling thread, the median of several calls."""
    workspace: int
    """Bytes that it takes at the worst in addition to its inputs and the outputs that the operation keeps."""
    output_bytes: int = 0
    """Bytes that an operator leaves allocated: the storages of its outputs."""
    measured: bool = True
    """False: its time is not known, because it could not be called on tensors made for that, or for lack of time; it is
    estimated by the bytes that it reads and writes."""


_COMPARING = OperatorCost(1, 0)
"""What comparing takes, next to nothing: on values made for measuring it would fail."""
UNCALLED = OperatorCost(0, 0, measured=False)
"""Stands for what a call takes for which there was no time."""


@dataclass
class OperatorCosts:
    """Costs of operators by the key of a call: a table to measure each but once, for several networks too."""

    known: dict[object, OperatorCost | None] = field(default_factory=dict)
    """None: the call failed."""
    untimed: dict[object, OperatorCost] = field(default_factory=dict, repr=False)
    """Calls of which only the memory is known, for where there is no time now either."""
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
        new = dict(sorted(new.items(), key=lambda item: -_bytes_touched(item[1][0])))
        if not new:
            return
        found = dict(zip(new, worker().measured(
            [_call(*call) for call in new.values()], max(1, repeats), deadline, end
        ), strict=True))  # fmt: skip
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
        """
        needed = needed_nodes(nodes)
        masks = {
            node: [[at in group for at in range(len(node.meta["val"]))] for group in groups]
            for node in nodes
            if node.op == "call_function" and is_masked(node) and len(groups := output_groups(node, needed)) > 1
        }
        self.measure(((node, mask) for node, every in masks.items() for mask in every), deadline=deadline, end=end)
        return frozenset(
            node.name for node, every in masks.items() if any(self.known[_key(node, mask)] is None for mask in every)
        )


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


# --- the worker ------------------------------------------------------------------------------------------------


class Worker:
    """A process that calls operators, begun when it is first asked, and anew after it has died."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: tuple[subprocess.Popen[bytes], Connection] | None = None
        self._ready = False
        """The process has imported PyTorch."""

    @property
    def running(self) -> bool:
        """True between the first question and the end of the process."""
        return self._running is not None

    def measured(
        self, calls: Sequence[OperatorCall | None], repeats: int, deadline: Deadline = NO_DEADLINE,
        end: Deadline = NO_DEADLINE,
    ) -> list[OperatorCost | None]:  # fmt: skip
        """What calls take, so many samples each, or fewer or none when time is over, though each is called for what
        memory it takes; None: there is no such call, it failed, or the process died of it; `UNCALLED`: after the end
        it was not called."""
        pickled = [_pickled(call) for call in calls]
        found = [Findings(failed=each is None) for each in pickled]
        with self._lock:
            try:
                while left := [
                    (at, each, repeats - len(known.samples))
                    for at, (each, known) in enumerate(zip(pickled, found, strict=True))
                    if each is not None and not known.failed and len(known.samples) < repeats
                ]:
                    if self._finished(tuple(left), found, deadline, end):
                        break
            except BaseException:
                self._end()
                raise
        return [_cost(each) for each in found]

    def _finished(
        self, calls: tuple[tuple[int, bytes, int], ...], found: list[Findings], deadline: Deadline, end: Deadline
    ) -> bool:
        """Make calls as far as that goes; False: the process has died, and the call that it died of is marked."""
        begun: int | None = None
        fresh = self._running is None
        try:
            asked = self._started()
            if not self._is_ready(asked, end):
                return True
            asked.send(Job(Settings.current(), calls, deadline.remaining(), end.remaining()))
            whole, counted, noted = sum(count for _, _, count in calls), 0, time.monotonic()
            while asked.poll(_wait(None if begun is None else _PATIENCE, end)):
                message = asked.recv()
                if isinstance(message, Done):
                    return True
                if isinstance(message, Begun):
                    begun = message.number
                elif isinstance(message, Memory):
                    found[message.number].note(message)
                elif isinstance(message, Sample):
                    found[message.number].add(message)
                    counted += 1
                    if time.monotonic() > noted + _NOTE_SECONDS:
                        noted = time.monotonic()
                        note(f"measuring operators: {100 * counted // whole} % of {count_text(whole, 'call')}")
                elif isinstance(message, Failed):
                    found[message.number].failed = True
        except (EOFError, OSError):
            pass  # it has died
        late = end.over()
        self._end()
        if late:
            return True
        if begun is not None:
            found[begun].failed = True
        elif fresh:  # it cannot even begin: there is not the memory, or no other process
            for number, _, _ in calls:
                found[number].failed = True
        return False

    def _is_ready(self, asked: Connection, end: Deadline) -> bool:
        """Wait for the process to have imported PyTorch; False: the end came before that."""
        if not self._ready and asked.poll(end.remaining()):
            self._ready = isinstance(asked.recv(), Ready)
        return self._ready

    def begin(self) -> None:
        """Start the process, which takes some seconds to import PyTorch, while there is something else to do."""
        with self._lock:
            self._started()

    def _started(self) -> Connection:
        if self._running is None:
            ours, its = Pipe()
            command = [sys.executable, "-P", "-c", _BEGIN, str(its.fileno())]
            nowhere = subprocess.DEVNULL
            with its:
                process = subprocess.Popen(
                    command, stdin=nowhere, stdout=nowhere, stderr=nowhere, pass_fds=[its.fileno()],
                    env=own_environment(), start_new_session=True,
                )  # fmt: skip
            self._running = process, ours
        return self._running[1]

    def _end(self) -> None:
        running, self._running, self._ready = self._running, None, False
        if running is not None:
            process, connection = running
            with contextlib.suppress(OSError):
                process.kill()
            connection.close()
            process.wait()

    def close(self) -> None:
        """End the process."""
        with self._lock:
            self._end()


def worker() -> Worker:
    """That of this process, with which it ends."""
    return _worker_of(os.getpid())


@functools.cache
def _worker_of(process: int) -> Worker:
    made = Worker()
    atexit.register(made.close)
    return made


def _wait(seconds: float | None, end: Deadline) -> float | None:
    """Seconds to wait for a message: no longer than some, nor much longer than to the end; None: without a limit."""
    left = end.remaining()
    waits = [each for each in (seconds, None if left is None else left + _GRACE) if each is not None]
    return min(waits, default=None)


def _cost(found: Findings) -> OperatorCost | None:
    if found.failed:
        return None
    if not found.called:
        return UNCALLED
    return OperatorCost(found.nanoseconds, found.workspace, found.output_bytes, bool(found.samples))


def _name(key: object, node: fx.Node) -> str:
    """The name of a call among what is kept; "": it is not kept, as only PyTorch's own operators stay the same."""
    namespace = getattr(node.target, "namespace", "")
    return name_of(key, device_of(node)) if namespace in ("aten", "prims") else ""


def _pickled(call: OperatorCall | None) -> bytes | None:
    if call is None:
        return None
    try:
        return pickle.dumps(call)
    except Exception:  # an object of somebody's own among the constants
        return None


def _call(node: fx.Node, mask: Sequence[bool] | None) -> OperatorCall | None:
    """The call of a traced operator; None: it is none of `torch.ops`."""
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
    return str(node.target), tuple(parts), str(shape), Settings.current()


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
    """The median time per byte of each operator of which calls could be measured."""
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
