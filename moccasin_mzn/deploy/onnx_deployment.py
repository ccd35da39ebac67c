"""A schedule for an ONNX file, checked against the file, and the model that follows it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

from moccasin_mzn.base.doc_links import Page
from moccasin_mzn.base.errors import InputError, explained, located, shown, some_of
from moccasin_mzn.base.files import load_json
from moccasin_mzn.deploy.gathering import of_same_parts, useful_cuts, with_reductions
from moccasin_mzn.deploy.onnx_rewriting import rewritten
from moccasin_mzn.deploy.onnx_tiling import possible_cuts, tiled_model
from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.graphs.importers.onnx.file import AS_IT_IS, OnnxImport, OnnxTrace, trace_onnx
from moccasin_mzn.graphs.importers.onnx.model import initializer_names, one_line, packages, reads, tensors
from moccasin_mzn.graphs.importers.onnx.network import OnnxNetwork, whole_model
from moccasin_mzn.graphs.importers.onnx.runtime import plain_options, runtime, with_weights
from moccasin_mzn.graphs.operators import Part
from moccasin_mzn.graphs.reduction import Reduction, reduce_graph
from moccasin_mzn.graphs.tiling.cutting import Cuts
from moccasin_mzn.problem.files.plans import is_plan
from moccasin_mzn.problem.files.schedules import ClaimedSchedule, claimed_schedule
from moccasin_mzn.problem.judges.schedules import Interval, Simulation, simulate

if TYPE_CHECKING:
    import onnx


_GIVE = {False: "give that here as well", True: "leave it out here as well"}
_OTHER = "is it for another model, or made with other options of import onnx?"


@dataclass(frozen=True)
class Deployment:
    """A model that follows a schedule."""

    model: onnx.ModelProto
    """What follows the schedule."""
    original: onnx.ModelProto
    """The model it was made of: local functions inlined, open dimensions fixed, optimized if that was asked for."""
    computations: int
    """Computations of nodes of the graph, recomputations included."""
    nodes: int
    """Nodes of the graph, but for the last one that keeps several results."""
    planned_peak: int
    """Most bytes that outputs of operators take at a time, with workspaces if they are asked for, by the simulator."""
    planned_values: int
    """The same without workspaces, which values alone do not show, and with operators in place where the
    schedule was made for some: what a run is measured against."""
    former_peak: int
    """`planned_peak` for the order of the file, nothing of it in parts."""
    in_parts: bool
    """Are outputs computed in parts? Then floating point numbers may be rounded otherwise."""
    folded: bool
    """Are values that depend on constants alone constants now? ONNX Runtime may have rounded them otherwise."""
    draws: bool
    """May the model output something else in each run? Operators that draw random numbers are computed once."""
    notes: tuple[str, ...]
    """What was assumed, or done to the model, or is not confirmed."""


def file_of(model: onnx.ModelProto) -> bytes:
    """The bytes of a model's file.

    Raises:
        InputError: they are too many.
    """
    from google.protobuf.message import EncodeError

    try:
        return model.SerializeToString()
    except (EncodeError, ValueError) as error:
        raise InputError(f"the new model: {one_line(error)}") from None


@dataclass(frozen=True)
class Source:
    """An ONNX file to be rewritten, and what schedules for it are of."""

    path: Path
    model: onnx.ModelProto
    """Local functions inlined, open dimensions fixed; with weights."""
    trace: OnnxTrace
    reduction: Reduction
    """The reduced graph of the trace; itself, if it was not reduced."""
    in_place: bool
    how: OnnxImport
    """The import of other models that are made of it."""
    whole: Source | None = None
    """What was cut into parts, if this was made so."""
    doubtful: Mapping[str, str] = field(default_factory=dict)
    """By value that has another shape at run time than is planned with a report of it, see `Reference.unlike`."""

    @property
    def runs_in_place(self) -> bool:
        """Does the schedule count on operators that run in the memory of what they read?"""
        return self.in_place or self.reduction.graph is not self.reduction.original

    @property
    def graph(self) -> ComputationGraph:
        """What a schedule is of."""
        return self.reduction.graph.run_in_place(self.in_place)


def read_source(
    path: str | PathLike[str], how: OnnxImport = AS_IT_IS, *, reduced: bool = False, in_place: bool = False,
    folder: Path | None = None,
) -> Source:  # fmt: skip
    """An ONNX file as the source of one that follows a schedule.

    Args:
        path: the file that was imported.
        how: that was.
        reduced: schedules are for what `reduce_graph` makes of that graph: operators that ONNX Runtime may compute in
            the memory of their input are one with the operator before.
        in_place: they are for outputs that overwrite inputs where they may.
        folder: where the new model is going to be, next to external files of weights; None: wherever.

    Raises:
        InputError: see `import_onnx`; weights are in external files of another folder.
    """
    packages()
    with located(path):
        data, how = how.prepared(path)
        trace = trace_onnx(data, Path(path).stem, how)
        model = whole_model(data, trace.network, how.dims)
        _check_external(model, Path(path).parent, folder)
        reduction = reduce_graph(trace.graph) if reduced else Reduction.nothing(trace.graph)
    return Source(Path(path), model, trace, reduction, in_place, replace(how, dims={}, isolated=False))


def in_parts(source: Source, cuts: Mapping[int, Cuts]) -> Source:
    """The source that computes outputs in parts.

    Args:
        cuts: by node of the source's graph; what cannot be done, or is of no use, stays whole.

    Raises:
        InputError: see `possible_cuts`; a model of over 2 GiB.
    """
    whole, operators = source.trace.graph, source.trace.operators
    wanted = {u: own for v, own in cuts.items() for u in source.reduction.expand([v])}
    possible = partial(possible_cuts, source.model, whole, operators, doubtful=source.doubtful)
    chosen = useful_cuts(whole, possible(with_reductions(whole, possible(wanted))))
    node_of = {operators[v]: whole.nodes[v] for v in chosen}
    model, boxes = tiled_model(
        source.model, {at: chosen[v] for v, at in enumerate(operators) if v in chosen and at is not None}
    )
    trace = trace_onnx(file_of(model), source.path.stem, source.how)
    names = [model.graph.node[at].output[0] if at is not None else "" for at in trace.operators]
    found = [boxes.get(name) for name in names]
    parts = tuple(None if each is None else Part(str(node_of[each[0]]), each[1]) for each in found)
    graph, of_values = (replace(each, parts=parts) for each in (trace.graph, trace.of_values))
    trace = replace(trace, graph=graph, of_values=of_values)
    reduced = source.reduction.graph is not source.reduction.original
    reduction = reduce_graph(graph, fuse=True) if reduced else Reduction.nothing(graph)
    return replace(source, model=model, trace=trace, reduction=reduction, whole=source)


@dataclass
class OnnxCutter:
    """Graphs of a source in parts, and what they are of."""

    source: Source
    made: list[Source] = field(default_factory=list)

    def cut(self, graph: ComputationGraph, cuts: Mapping[int, Cuts]) -> ComputationGraph:
        """The graph of the source that computes outputs in parts, see `in_parts`; `graph` is the source's own."""
        self.made.append(in_parts(self.source, cuts))
        return self.made[-1].graph

    def source_of(self, graph: ComputationGraph) -> Source:
        """The one that has a graph which was made here."""
        return next(each for each in reversed(self.made) if of_same_parts(each.graph, graph))


def read_sequence(schedule: str | PathLike[str], source: Source) -> tuple[int, ...]:
    """A schedule of the source's graph from a file, as `solve --output` writes it; see `read_schedule`.

    Raises:
        InputError: the file cannot be read, is for another model, is no schedule, or recomputes an operator that
            would output something else.
    """
    document = load_json(schedule, Page.PLAN_FORMAT)
    with located(schedule), explained(Page.PLAN_FORMAT):
        claimed = _claimed(document, source)
        _check_schedule(claimed, simulate(source.graph, claimed.sequence))
        _check_repeats(source.graph, claimed.sequence)
    return claimed.sequence


def deploy(source: Source, sequence: Sequence[int]) -> Deployment:
    """The model of a file, rewritten so that it follows a schedule of the source's graph, which the judge accepts.

    Raises:
        InputError: it recomputes an operator that would output something else; `onnx` refuses the new model.
    """
    graph, trace, whole = source.graph, source.trace, source.whole or source
    _check_repeats(graph, sequence)
    with located(source.path):
        expanded = source.reduction.expand(sequence)
        operators = _operators(trace, expanded)
        known, unknown = known_values(source.model, trace.network, source.path.parent)
        new = rewritten(source.model, operators, known)
        notes = [
            *whole.trace.graph.attributes.get("assumed", ()), *unknown, *_checked(new, source.model),
            *(f"{report}, as is planned" for report in whole.doubtful.values()),
        ]  # fmt: skip
    return Deployment(
        model=new,
        original=whole.model,
        computations=len(operators),
        nodes=len(set(operators)),
        planned_peak=simulate(graph, sequence).peak,
        planned_values=simulate(trace.of_values.run_in_place(source.runs_in_place), expanded).peak,
        former_peak=simulate(whole.graph, whole.graph.input_order()).peak,
        in_parts=whole is not source,
        folded=bool(trace.network.folded),
        draws=bool(trace.graph.computed_once),
        notes=tuple(notes),
    )


def _operators(trace: OnnxTrace, sequence: Sequence[int]) -> list[int]:
    found = (trace.operators[node] for node in sequence)
    return [operator for operator in found if operator is not None]


def _check_external(model: onnx.ModelProto, folder: Path, new_folder: Path | None) -> None:
    external = [tensor.name for tensor in tensors(model.graph) if tensor.data_location == tensor.EXTERNAL]
    if external and (new_folder is None or new_folder.resolve() != folder.resolve()):
        raise InputError(f"weights in external files ({some_of(external)}): write the new model next to this one")


def _claimed(document: object, source: Source) -> ClaimedSchedule:
    """The schedule of a file.

    Raises:
        InputError: it is no schedule of the source's graph.
    """
    graph = source.graph
    if is_plan(document):
        raise InputError("a plan for several memories; expected a schedule for one")
    if isinstance(document, dict):
        if bool(document.get("in_place")) != source.in_place and "peak" in document:
            raise InputError(f"made with{'out' * source.in_place} --in-place: {_GIVE[source.in_place]}")
        for key, count in (("nodes", len(graph.nodes)), ("edges", len(graph.edges))):
            stated = document.get(key, count)
            if stated != count:
                raise InputError(f"for a graph of {shown(stated)} {key}, the model has {count}; {_OTHER}")
    try:
        return claimed_schedule(document, graph)
    except InputError as error:
        strange = "is not in the graph" in str(error)
        raise InputError(f"{error}; {_OTHER}" if strange else str(error)) from None


def _check_schedule(claimed: ClaimedSchedule, simulation: Simulation) -> None:
    """Refuse what is no schedule, or is one of a model of other sizes. Durations may have been measured, and are passed
    over."""
    if simulation.violations:
        raise InputError(f"no schedule of this model: {simulation.violations[0].message}")
    if claimed.peak is not None and claimed.peak != simulation.peak:
        raise InputError(f"peak {claimed.peak}, but with this model it is {simulation.peak}; {_OTHER}")
    if claimed.intervals is not None and sorted(map(_key, claimed.intervals)) != sorted(
        map(_key, simulation.intervals)
    ):
        raise InputError(f"its intervals are not those of its sequence with this model; {_OTHER}")


def _key(interval: Interval) -> tuple[int, int, int]:
    return interval.node, interval.start, interval.end


def _check_repeats(graph: ComputationGraph, sequence: Sequence[int]) -> None:
    labels, counts = graph.labels or graph.nodes, Counter(sequence)
    for node in graph.computed_once:
        if counts[node] > 1:
            name = f"{labels[node]} {shown(graph.nodes[node])}"
            raise InputError(
                f"{name} is computed {counts[node]} times, and may put out something else each time; solve computes it "
                "once, other than strategies and Checkmate's models"
            )


def _checked(new: onnx.ModelProto, original: onnx.ModelProto) -> list[str]:
    """Have `onnx` check a new model, shapes included; its message if it refuses the original as well.

    Raises:
        InputError: it accepts the original alone.
    """
    complaint = _complaint(new)
    if complaint is not None and _complaint(original) is None:
        raise InputError(f"the rewritten model is not accepted: {complaint}")
    return [] if complaint is None else [f"onnx accepts neither the model nor the new one: {complaint}"]


def _complaint(model: onnx.ModelProto) -> str | None:
    onnx = packages()
    from onnx import checker

    try:
        checker.check_model(model, full_check=True)
    except (checker.ValidationError, onnx.shape_inference.InferenceError, ValueError) as error:
        return one_line(error)
    return None


# --- Values of an ONNX model that stand in a new one as constants: numbers of Shape and Size, and what is folded

# ONNX Runtime itself computes what is folded, so that nothing changes by a bit.


def known_values(
    model: onnx.ModelProto, network: OnnxNetwork, folder: Path
) -> tuple[dict[str, onnx.TensorProto], list[str]]:
    """Values by name, and what is to be reported about those that are left as they are.

    Args:
        model: of the network, with weights.
        network: what was found of it.
        folder: of external files.
    """
    onnx = packages()
    known = {}
    for name, value in network.described.items():
        shape, numbers = ([], [value]) if isinstance(value, int) else ([len(value)], value)
        known[name] = onnx.helper.make_tensor(name, onnx.TensorProto.INT64, shape, numbers)
    wanted = _read_by_others(model.graph, set(network.folded) - known.keys(), known.keys())
    if not wanted:
        return known, []
    try:
        runtime()
    except InputError:
        return known, [f"computed in each run, without onnxruntime to fold it: {some_of(wanted)}"]
    try:
        return known | _computed(model, wanted, known, folder), []
    except InputError as error:
        return known, [f"computed in each run: {some_of(wanted)}: {error}"]


def _read_by_others(graph: onnx.GraphProto, folded: set[str], known: object) -> list[str]:
    """Folded values that the network returns, or an operator reads that is not folded."""
    read = {value.name for value in graph.output}
    for node in graph.node:
        if not folded.intersection(node.output):
            read.update(reads(node))
    return [name for node in graph.node for name in node.output if name in folded and name in read]


def _computed(
    model: onnx.ModelProto, wanted: Sequence[str], known: dict[str, onnx.TensorProto], folder: Path
) -> dict[str, onnx.TensorProto]:
    onnx, module = packages(), runtime()
    graph = model.graph
    makers = {name: node for node in graph.node for name in node.output if name}
    needed, waiting = set(), list(wanted)
    while waiting:
        name = waiting.pop()
        if name not in needed:
            needed.add(name)
            waiting.extend(reads(makers[name]) if name in makers and name not in known else ())
    part = type(model)()
    part.ir_version = model.ir_version
    part.opset_import.extend(model.opset_import)
    part.graph.name = graph.name or "constants"
    stored = set(initializer_names(graph))
    part.graph.initializer.extend(one for one in graph.initializer if one.name in needed)
    part.graph.sparse_initializer.extend(one for one in graph.sparse_initializer if one.values.name in needed)
    part.graph.input.extend(value for value in graph.input if value.name in needed & stored)
    part.graph.initializer.extend(tensor for name, tensor in known.items() if name in needed)
    if model.ir_version < 4:
        part.ir_version = 4
    part.graph.node.extend(
        node for node in graph.node if needed.intersection(node.output) and not set(node.output) & known.keys()
    )
    part.graph.output.extend(onnx.ValueInfoProto(name=name) for name in wanted)
    data = with_weights(part, folder).SerializeToString()
    try:
        session = module.InferenceSession(data, plain_options(1), providers=["CPUExecutionProvider"])
        values = session.run(None, {})
    except Exception as error:  # its own types derive from nothing but Exception
        raise InputError(f"constants, in ONNX Runtime {module.__version__}: {one_line(error)}") from None
    return {name: onnx.numpy_helper.from_array(value, name) for name, value in zip(wanted, values, strict=True)}
