"""PyTorch networks, forward or with the backward pass, as computation graphs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from moccasin_mzn.errors import located
from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.graphs.importers.program import Missing, program_graph
from moccasin_mzn.graphs.importers.torch_spec import place
from moccasin_mzn.graphs.importers.torch_trace import Trace, require_torch, trace_network


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
    both. See `torch_memory` for operators that overwrite their inputs.

    Args:
        spec: `module:factory` or `path/to/file.py:factory`. The current directory is on the path. The factory takes no
            arguments and returns a `torch.nn.Module`.
        inputs: one for each tensor that the network is called with: `8x3x224x224`, `8x128:int64` (see
            `torch_spec.DTYPES`), or `NAME=8x128:int64` for a keyword argument.
        optimizer: for `fixed_memory` only: "none", "sgd", "momentum" (as much again as the trained parameters) or
            "adam" (twice as much).
        missing: what to take where the trace does not tell; by default a missing size stops.
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
