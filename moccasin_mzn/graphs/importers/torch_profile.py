"""How long the operations of a traced PyTorch network take on this machine's CPU."""

from __future__ import annotations

import contextlib
import statistics
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from moccasin_mzn.errors import InputError, shown
from moccasin_mzn.graphs.importers.torch_memory import INPUT, Member
from moccasin_mzn.graphs.importers.torch_nodes import group_duration
from moccasin_mzn.graphs.importers.torch_spec import users_code
from moccasin_mzn.graphs.importers.torch_trace import Trace, quiet, trace_network

if TYPE_CHECKING:
    import torch
    from torch import fx

WARM_UPS, REPEATS = 2, 5
_PARAMETER_SCALE = 0.05


def profile_torch(
    spec: str, inputs: Sequence[str], *, training: bool = False, warm_ups: int = WARM_UPS, repeats: int = REPEATS
) -> dict[str, int]:
    """Nanoseconds that each operation takes; arguments as for `import_torch`. THIS RUNS THE MODULE'S CODE.

    The traced operators are executed one by one, with as much memory as a real run needs. Parameters and inputs are
    random, but integers are 0.

    Returns:
        By id as in the graph of `import_torch`, at least 1: medians over `repeats` runs after `warm_ups` runs. Views
        count for nothing. Nodes that are not executed, such as the one that keeps the results, are missing.

    Raises:
        InputError: see `import_torch`; no repeats; the run fails.
    """
    return measure(trace_network(spec, inputs, training=training), warm_ups=warm_ups, repeats=repeats)


def measure(trace: Trace, *, warm_ups: int = WARM_UPS, repeats: int = REPEATS) -> dict[str, int]:
    """`profile_torch` for a network that is traced already."""
    import torch

    for what, value, least in (("warm-ups", warm_ups, 0), ("repeats", repeats, 1)):
        if type(value) is not int or value < least:
            raise InputError(f"{what}: {shown(value)}, expected an integer of {least} or more")
    nodes = {node.name: node for node in trace.graph_module.graph.nodes}
    clock = _clock(trace.graph_module)
    where = f"{trace.facts['network']} on {', '.join(trace.facts['inputs'])}, executed"
    with quiet(), users_code(where), torch.random.fork_rng(devices=[]), torch.no_grad(), no_denormals():
        torch.manual_seed(0)
        tensors = [
            real_tensor(node.meta["val"], trace.kinds[node.name]) for node in nodes.values() if node.op == "placeholder"
        ]  # fmt: skip
        runs = []
        for run in range(warm_ups + repeats):
            clock.times = {}
            clock.run(*tensors)
            if run >= warm_ups:
                runs.append(clock.times)
    medians = {name: statistics.median(times[name] for times in runs) for name in runs[0]}
    return {
        operation: max(1, round(sum(medians[member.node] * share for member, share in shares)))
        for operation, shares in member_shares(trace.members, nodes).items()
    }


def _clock(graph_module: fx.GraphModule) -> Any:
    """An interpreter that leaves the nanoseconds of every operator of a run in its `times`."""
    from torch import fx
    from torch._subclasses.fake_tensor import FakeTensor

    class Clock(fx.Interpreter):
        times: dict[str, int]

        def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
            begin = time.perf_counter_ns()
            result = target(*args, **kwargs)
            self.latest = time.perf_counter_ns() - begin
            return result

        def run_node(self, node: fx.Node) -> Any:
            result = super().run_node(node)
            if node.op == "call_function":
                self.times[node.name] = self.latest
            return result

        def get_attr(self, target: Any, args: Any, kwargs: Any) -> Any:
            found = super().get_attr(target, args, kwargs)
            return real_tensor(found, INPUT) if isinstance(found, FakeTensor) else found

    return Clock(graph_module)


@contextlib.contextmanager
def no_denormals() -> Iterator[None]:
    """Meanwhile numbers very close to zero are zero: random parameters make many of them, and they take very long."""
    import torch

    flushed = float(torch.tensor(1e-38, dtype=torch.float32) * 1e-3) == 0
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(flushed)


def real_tensor(fake: torch.Tensor, kind: str, device: str | None = None) -> torch.Tensor:
    """A tensor with memory: normal numbers for inputs, small ones over 0 for the rest (a variance is no less)."""
    import torch

    made = torch.empty_strided(fake.shape, fake.stride(), dtype=fake.dtype, device=device or fake.device)
    places = made.as_strided((made.untyped_storage().nbytes() // made.element_size(),), (1,), 0)  # expanded: each once
    if not (fake.dtype.is_floating_point or fake.dtype.is_complex):
        places.zero_()
    elif kind == INPUT or fake.dtype.is_complex:
        places.normal_()
    else:
        places.uniform_(0, _PARAMETER_SCALE)
    return made


def member_shares(
    members: Mapping[str, Sequence[Member]], nodes: Mapping[str, fx.Node]
) -> dict[str, list[tuple[Member, float]]]:
    """For each operation its traced nodes, each with the operation's share of it, by FLOPs or elements written."""
    weights: dict[str, dict[Member, int]] = defaultdict(dict)
    for operation in members.values():
        for member in operation:
            weights[member.node][member] = group_duration(nodes[member.node], member.outputs) or 0
    return {
        name: [
            (member, weights[member.node][member] / (sum(weights[member.node].values()) or 1))
            if len(weights[member.node]) > 1
            else (member, 1.0)
            for member in operation
        ]
        for name, operation in members.items()
    }
