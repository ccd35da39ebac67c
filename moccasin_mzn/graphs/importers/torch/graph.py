"""PyTorch networks, forward or with the backward pass, as computation graphs."""

from __future__ import annotations

import contextlib
import statistics
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from moccasin_mzn.base.errors import InputError, located, shown
from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.graphs.importers.program import Missing, program_graph
from moccasin_mzn.graphs.importers.torch.memory import INPUT, Member
from moccasin_mzn.graphs.importers.torch.nodes import group_duration
from moccasin_mzn.graphs.importers.torch.spec import place, users_code
from moccasin_mzn.graphs.importers.torch.trace import Trace, quiet, require_torch, trace_network

if TYPE_CHECKING:
    import torch
    from torch import fx
    from torch.fx.node import Target
    from torch.utils._pytree import PyTree


def import_torch(
    spec: str,
    inputs: Sequence[str],
    *,
    training: bool = False,
    optimizer: str = "none",
    missing: Missing | None = None,
    keep_results: bool = True,
) -> ComputationGraph:
    """The graph of tensors in memory of a PyTorch network. THIS RUNS THE MODULE'S CODE: import what you trust.

    The network is traced with tensors that have shapes but no memory, as a CPU executes it. Its factory makes real
    parameters, unless it builds under `with torch.device("meta")`, as huge networks should.

    - Inference: by `torch.export`, in evaluation mode.
    - Training: forward pass, loss and backward pass, in training mode. The first output is the loss if it is a scalar;
      otherwise the sum of all outputs is. The loss and the gradients of the parameters are kept to the end; updates of
      running statistics are part of the operation that makes them.

    Operators that draw random numbers (dropout) are recomputed rightly only if the random state is restored, and batch
    norm in training updates its running statistics once more when recomputed: who executes a schedule has to see to
    both. See `memory` for operators that overwrite their inputs.

    Args:
        spec: `module:factory` or `path/to/file.py:factory`. The current directory is on the path. The factory takes no
            arguments and returns a `torch.nn.Module`.
        inputs: one for each tensor that the network is called with: `8x3x224x224`, `8x128:int64` (see
            `torch_spec.DTYPES`), or `NAME=8x128:int64` for a keyword argument.
        optimizer: for `fixed_memory` only: "none", "sgd", "momentum" (as much again as the trained parameters) or
            "adam" (twice as much).
        missing: what to take where the trace lacks it; by default a missing size stops.
        keep_results: see `program_graph`.

    Returns:
        Sizes in bytes; durations in FLOP, 2 for a multiply-add, by the formulas of `torch.utils.flop_counter`, and for
        all other operators one for each element written. Ids are the names of the traced nodes, labels the path of the
        module and the operator. `fixed_memory` has "parameters", "buffers", "inputs", "optimizer" and "constants".

    Raises:
        InputError: PyTorch is not installed; nonsense in an argument; the network, or `torch.export` on it, raises
            something; a size is unknown; nothing is computed from the inputs.
    """
    return graph_of(trace_network(spec, inputs, training=training, optimizer=optimizer), missing, keep_results)


def graph_of(trace: Trace, missing: Missing | None = None, keep_results: bool = True) -> ComputationGraph:
    """The graph of a traced network; see `import_torch`."""
    missing = missing or Missing()
    with located(place(trace.facts["network"], trace.facts["inputs"])):
        graph = program_graph(trace.program, missing, keep_results=keep_results, attributes=dict(trace.facts))
    named = zip(map(str, graph.nodes), graph.labels or graph.nodes, strict=True)
    labels = tuple(trace.labels.get(node, str(label)) for node, label in named)
    return replace(graph, labels=labels)


def versions() -> dict[str, str]:
    """The version of PyTorch, as `{"torch": ...}`.

    Raises:
        InputError: it is not installed.
    """
    require_torch()
    import torch

    return {"torch": str(torch.__version__)}


# --- How long the operations of a traced PyTorch network take on this machine's CPU ---------------------------


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


def _clock(graph_module: fx.GraphModule) -> PyTree:
    """An interpreter that leaves the nanoseconds of every operator of a run in its `times`."""
    from torch import fx
    from torch._subclasses.fake_tensor import FakeTensor

    class Clock(fx.Interpreter):
        times: dict[str, int]

        def call_function(self, target: Target, args: PyTree, kwargs: PyTree) -> PyTree:
            assert callable(target)
            begin = time.perf_counter_ns()
            result = target(*args, **kwargs)
            self.latest = time.perf_counter_ns() - begin
            return result

        def run_node(self, node: fx.Node) -> PyTree:
            result = super().run_node(node)
            if node.op == "call_function":
                self.times[node.name] = self.latest
            return result

        def get_attr(self, target: Target, args: PyTree, kwargs: PyTree) -> PyTree:
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
