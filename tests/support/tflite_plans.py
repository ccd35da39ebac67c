"""Plans of small TFLite models, and the offsets that deployed ones have."""

from __future__ import annotations

import numpy as np

from moccasin_mzn.deploy.source import placed
from moccasin_mzn.deploy.tflite_model import METADATA
from moccasin_mzn.graphs.importers.tflite import graph_of, read_model, size_of
from moccasin_mzn.problem.judges.arenas import flaws
from moccasin_mzn.problem.platform import plan_of_sequence
from moccasin_mzn.problem.runtime_plan import RuntimePlan
from moccasin_mzn.search.options import Effort

INPUT = "input 0"


def written(folder, data, name="model.tflite"):
    path = folder / name
    path.write_bytes(data)
    return path


def plan_of(path, sequence=None):
    model = read_model(path)
    graph = graph_of(model, path.stem)
    return model, graph, plan_along(graph, sequence or graph.nodes)


def plan_along(graph, ids):
    actions = plan_of_sequence([graph.position_of(node) for node in ids])
    return placed(RuntimePlan.of(graph, actions), 16, Effort(0.5))


def offsets_in(path):
    """The metadata, read back: an offset or -1 for each tensor."""
    model = read_model(path)
    (found,) = [one for one in model.metadata if one.name == METADATA.encode()]
    version, subgraph, count, *offsets = np.frombuffer(model.buffers[found.buffer].data.tobytes(), "<i4").tolist()
    tensors = sum(len(each.tensors) for each in model.subgraphs)
    assert (version, subgraph, count) == (1, 0, tensors) and count == len(offsets)
    return model, offsets


def taken(model, offsets):
    """The memory of tensors of which no two that live together overlap; inputs live from the beginning."""
    subgraph = model.subgraphs[0]
    born, dead = {int(x): -1 for x in subgraph.inputs}, {}
    for at, operator in enumerate(subgraph.operators):
        for x in () if operator.inputs is None else map(int, operator.inputs):
            assert x in born or offsets[x] == -1  # a constant, or computed before
            dead[x] = at
        for x in () if operator.outputs is None else map(int, operator.outputs):
            assert x not in born and offsets[x] >= 0
            born[x] = at
    dead |= {int(x): len(subgraph.operators) for x in subgraph.outputs}
    there = [x for x in born if size_of(model, x)]
    assert all(offsets[x] >= 0 for x in there)
    sizes = {x: size_of(model, x) for x in there}
    boxes = [(max(0, born[x]), dead.get(x, born[x]) + 1, sizes[x], 16) for x in there]
    assert [*flaws(boxes, [offsets[x] for x in there])] == []
    return max(offsets[x] + sizes[x] for x in there)
