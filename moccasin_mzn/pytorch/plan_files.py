"""Plans as JSON files: the sequence, what it is for, and how the traced network is known again. They are in a format of
their own, see `problem.files.version`: without the network nothing can be run."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from os import PathLike
from typing import TYPE_CHECKING

from moccasin_mzn.base.doc_links import Page
from moccasin_mzn.base.errors import InputError, explained, located
from moccasin_mzn.base.files import Json, JsonObject, load_json, replace_file
from moccasin_mzn.graphs.importers.torch.spec import one_line
from moccasin_mzn.graphs.importers.torch.trace import require_torch
from moccasin_mzn.machine.platforms import LOCAL, SLOW
from moccasin_mzn.problem.files.schedules import TORCH_FORMAT, VERSION, check_torch_version
from moccasin_mzn.problem.platform import Action
from moccasin_mzn.pytorch.call import TENSOR, Form, Step, Structure
from moccasin_mzn.pytorch.errors import PlanError, check_grad_mode
from moccasin_mzn.pytorch.guards import autocast_text
from moccasin_mzn.pytorch.joint import EVERY, Joint
from moccasin_mzn.pytorch.tracing import Traced, meant

if TYPE_CHECKING:
    import torch
    from torch.utils._pytree import PyTree


def write_plan(
    path: str | PathLike[str], traced: Traced, plan: Sequence[int] | Sequence[Action], found: JsonObject
) -> None:
    """Write a plan, and what was found with it.

    Raises:
        PlanError: the network is called with something that JSON cannot represent.
        InputError: the file cannot be written.
    """
    import torch
    from torch.utils._pytree import treespec_dumps

    rest = [None if leaf is TENSOR else [leaf] for leaf in traced.arguments.rest]
    if not all(each is None or each[0] is None or type(each[0]) in (bool, int, float, str) for each in rest):
        text = "the network is called with an argument that a file cannot hold: this plan cannot be saved"
        raise PlanError(text, Page.KEPT_PLANS)
    try:
        tree = json.loads(treespec_dumps(traced.arguments.tree))
    except NotImplementedError:  # an object of some class
        text = "the network is called with an object of a class of its own: this plan cannot be saved"
        raise PlanError(text, Page.KEPT_PLANS) from None
    document = {
        "format": TORCH_FORMAT,
        "version": VERSION,
        "torch": str(torch.__version__),
        "graph": digest(traced.joint),
        "arguments": {"tree": tree, "rest": rest},
        "inputs": [asdict(form) for form in traced.forms],
        "loss": traced.step.loss is not None,
        "differentiate": traced.differentiate,
        "autocast": [*map(list, traced.guards.autocast)],
        "training": traced.step.model.training,
        "gradients": traced.gradients,
        "threads": torch.get_num_threads(),
        **found,
        "durations": [*traced.problem.graph.durations],
        "duration_unit": traced.problem.graph.duration_unit,
        "workspaces": [*traced.problem.graph.workspace_of],
        "unsplit": sorted(traced.unsplit),
        "sequence": [_entry(traced, each) for each in plan],
    }
    replace_file(path, json.dumps(document, indent=1) + "\n")


def read_plan(
    path: str | PathLike[str],
    model: torch.nn.Module,
    loss: Callable[..., PyTree] | None,
    found: Sequence[str],
) -> tuple[Traced, tuple[Action, ...], JsonObject]:  # fmt: skip
    """Read a plan: the step, traced again, the actions, and what was found with it, by these names.

    Raises:
        InputError: the file cannot be read, or is no plan of a PyTorch training step, or broken.
        PlanError: it is a plan for another network, or another version of PyTorch, or none that could be run.
    """
    require_torch()
    document = load_json(path, Page.KEPT_PLANS)
    with located(path), explained(Page.KEPT_PLANS):
        check_torch_version(document)
    try:
        traced = _with_costs(_traced(document, model, loss), document)
        actions = tuple(_action(traced, each) for each in document["sequence"])
        meant(traced.problem, actions)
        return traced, actions, {name: document[name] for name in found}
    except KeyError as error:
        raise InputError(Page.KEPT_PLANS.after(f"{path}: no plan: {error} is missing")) from None


_WRITTEN, _READ_BACK = "written", "read back"
"""Words for copies: such an entry of the sequence is an object of one of them and the node."""


def _entry(traced: Traced, each: int | Action) -> Json:
    nodes = traced.problem.graph.nodes
    if not isinstance(each, Action):
        return nodes[each]
    name = nodes[each.node]
    return name if each.source is None else {_READ_BACK if each.memory == LOCAL else _WRITTEN: name}


def _action(traced: Traced, entry: Json) -> Action:
    position = traced.problem.graph.position_of
    if not isinstance(entry, dict):
        return Action(position(entry), LOCAL)
    if _READ_BACK in entry:
        return Action(position(entry[_READ_BACK]), LOCAL, SLOW)
    return Action(position(entry[_WRITTEN]), SLOW, LOCAL)


def _traced(document: JsonObject, model: torch.nn.Module, loss: Callable[..., PyTree] | None) -> Traced:
    import torch
    from torch.utils._pytree import treespec_loads

    check_grad_mode()
    if document["torch"] != str(torch.__version__):
        text = f"saved with torch {document['torch']}, this is {torch.__version__}: make a new plan"
        raise PlanError(text, Page.KEPT_PLANS)
    if document["loss"] != (loss is not None):
        text = "saved with a loss: give it" if document["loss"] else "saved without a loss: give none"
        raise PlanError(text, Page.KEPT_PLANS)
    called = document["arguments"]
    tree = treespec_loads(json.dumps(called["tree"]))
    arguments = Structure(tree, tuple(TENSOR if each is None else each[0] for each in called["rest"]))
    forms = [
        Form(tuple(each["shape"]), tuple(each["stride"]), each["dtype"], each["device"], each["requires_grad"])
        for each in document["inputs"]
    ]
    try:
        whole, asked = document.get("unsplit", ()), document.get("differentiate", EVERY)
        traced = Traced.of(Step(model, loss), arguments, forms, None, document["gradients"], whole, asked)
    except InputError:
        raise
    except Exception as error:
        text = f"{type(error).__name__}: {one_line(error)}"
        raise PlanError(f"this network cannot be called as the plan's was, make a new plan ({text})") from error
    found = digest(traced.joint)
    if found != document["graph"]:
        raise PlanError(_other(document, traced, found), Page.KEPT_PLANS)
    return traced


def _other(document: JsonObject, traced: Traced, found: str) -> str:
    """Why a network's trace is not the one that a plan was saved for, and what to do."""
    autocast = tuple((device, dtype) for device, dtype in document.get("autocast", traced.guards.autocast))
    if autocast != traced.guards.autocast:
        return f"saved {autocast_text(autocast)}, this is {autocast_text(traced.guards.autocast)}: load it likewise"
    modes, training = ("evaluation", "training"), traced.step.model.training
    if document.get("training", training) != training:
        return f"saved in {modes[not training]} mode, the network is in {modes[training]} mode: load it likewise"
    return f"saved for the graph {document['graph'][:12]}, this network's is {found[:12]}: make a new plan"


def _with_costs(traced: Traced, document: JsonObject) -> Traced:
    """With the durations and workspaces that were measured when the plan was made."""
    graph = replace(
        traced.problem.graph, durations=tuple(document["durations"]), duration_unit=document["duration_unit"],
        workspaces=tuple(document["workspaces"]),
    )  # fmt: skip
    return replace(traced, problem=replace(traced.problem, graph=graph))


def digest(joint: Joint) -> str:
    """The digest of a traced step: all its operators, and the forms of what it is given."""
    text = f"{joint.graph_module.graph}\n{list(joint.given.values())}\n{joint.differentiable}"
    return hashlib.sha256(text.encode()).hexdigest()
