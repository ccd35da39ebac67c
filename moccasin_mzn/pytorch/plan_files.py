"""Plans as JSON files: the sequence, what it is for, and how the traced network is known again."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import asdict
from os import PathLike
from typing import TYPE_CHECKING, Any

from moccasin_mzn.errors import InputError
from moccasin_mzn.files import load_json, replace_file
from moccasin_mzn.graphs.importers.torch_trace import require_torch
from moccasin_mzn.pytorch.call import TENSOR, Form, Step, Structure
from moccasin_mzn.pytorch.joint import Joint
from moccasin_mzn.pytorch.liveness import peaks
from moccasin_mzn.pytorch.planning import Plan, Traced
from moccasin_mzn.pytorch.refusal import PlanError

if TYPE_CHECKING:
    import torch

_FORMAT = "moccasin_mzn plan 1"


def write_plan(plan: Plan, path: str | PathLike[str]) -> None:
    """Write a plan.

    Raises:
        PlanError: the network is called with something that JSON cannot tell.
        InputError: the file cannot be written.
    """
    import torch
    from torch.utils._pytree import treespec_dumps

    traced = plan.traced
    rest = [None if leaf is TENSOR else [leaf] for leaf in traced.arguments.rest]
    if not all(each is None or each[0] is None or type(each[0]) in (bool, int, float, str) for each in rest):
        raise PlanError("the network is called with an argument that a file cannot hold: this plan cannot be saved")
    nodes = plan.graph.nodes
    document = {
        "format": _FORMAT,
        "torch": str(torch.__version__),
        "graph": digest(traced.joint),
        "arguments": {"tree": json.loads(treespec_dumps(traced.arguments.tree)), "rest": rest},
        "inputs": [asdict(form) for form in traced.forms],
        "loss": traced.step.loss is not None,
        "budget": plan.budget,
        "status": plan.status,
        "predicted_increase": plan.predicted_increase,
        "bound": plan.bound,
        "sequence": [nodes[v] for v in plan.sequence],
    }
    replace_file(path, json.dumps(document, indent=1) + "\n")


def read_plan(path: str | PathLike[str], model: torch.nn.Module, loss: Callable[[Any, Any], Any] | None) -> Plan:
    """Read a plan; see `Plan.load`."""
    require_torch()
    document = load_json(path)
    if not isinstance(document, dict) or document.get("format") != _FORMAT:
        raise InputError(f'{path}: no plan: expected an object whose "format" is "{_FORMAT}"')
    try:
        return _plan(document, model, loss)
    except KeyError as error:
        raise InputError(f"{path}: no plan: {error} is missing") from None


def _plan(document: dict[str, Any], model: torch.nn.Module, loss: Callable[[Any, Any], Any] | None) -> Plan:
    import torch
    from torch.utils._pytree import treespec_loads

    if document["torch"] != str(torch.__version__):
        raise PlanError(f"saved with torch {document['torch']}, this is {torch.__version__}: make a new plan")
    if document["loss"] != (loss is not None):
        raise PlanError("saved with a loss: give it" if document["loss"] else "saved without a loss: give none")
    kept = document["arguments"]
    tree = treespec_loads(json.dumps(kept["tree"]))
    arguments = Structure(tree, tuple(TENSOR if each is None else each[0] for each in kept["rest"]))
    forms = [
        Form(**{name: tuple(value) if isinstance(value, list) else value for name, value in each.items()})
        for each in document["inputs"]
    ]
    traced = Traced.of(Step(model, loss), arguments, forms)
    found = digest(traced.joint)
    if found != document["graph"]:
        raise PlanError(f"saved for the graph {document['graph'][:12]}, this network's is {found[:12]}: make a new plan")
    graph = traced.problem.graph
    sequence = tuple(graph.position_of(node) for node in document["sequence"])
    amounts = [document[name] for name in ("budget", "status", "predicted_increase", "bound")]
    unplanned = peaks(traced.linear(graph.input_order()))
    return Plan(traced, sequence, peaks(traced.linear(sequence)), unplanned, *amounts)


def digest(joint: Joint) -> str:
    """What tells one traced step from another: all its operators, and the forms of what it is given."""
    text = f"{joint.graph_module.graph}\n{list(joint.given.values())}\n{joint.differentiable}"
    return hashlib.sha256(text.encode()).hexdigest()
