"""Graphs of a richer memory model as plainer ones: relaxed to such that need no more, or of one output each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeVar

from moccasin_mzn.base.doc_links import Page
from moccasin_mzn.base.errors import InputError
from moccasin_mzn.graphs.graph import TOTAL_LIMIT, ComputationGraph

Kept = TypeVar("Kept")


def refuse_adjacent(graph: ComputationGraph, what: str, instead: str = "leave out --zero-copy-concat") -> None:
    """Check that no node reads several outputs as one; `what`, in the plural, cannot keep them side by side.

    Raises:
        InputError: some do.
    """
    if graph.adjacent is not None:
        raise InputError(Page.GRAPH_FILES.after(f"{what} know no outputs that lie side by side: {instead}"))


def relaxed(graph: ComputationGraph) -> tuple[ComputationGraph, int]:
    """A graph that does not run in place, and an amount: no schedule needs more memory in it than that of `graph`, at
    any position, and the amount. So a bound on it, with budgets that are larger by the amount, is one on `graph`.

    What a computation may spare is taken off its workspace, as if it always did, and the amount added to all of them,
    so that none is negative; but further outputs spare nothing and have no workspace. Of sizes so large that this is
    more than a graph may have, only the largest working sets are left.
    """
    if graph.overwritable is None:
        return graph, 0
    own = graph.workspaces or (0,) * len(graph.nodes)
    further = graph.output_of or (None,) * len(graph.nodes)
    amount = max(0, *(spared - workspace for spared, workspace in zip(graph.spared, own, strict=True)))
    rows = zip(own, graph.spared, further, strict=True)
    workspaces = tuple(workspace - spared + amount if of is None else 0 for workspace, spared, of in rows)
    largest = max(taken + new - old for taken, new, old in zip(graph.workspace_of, workspaces, own, strict=True))
    if graph.total_size + largest <= TOTAL_LIMIT and sum(workspaces) <= TOTAL_LIMIT:
        return replace(graph, workspaces=workspaces, in_place=None, runs_in_place=False), amount
    nothing = (0,) * len(own)
    least = tuple(_largest(graph))
    alone = replace(graph, sizes=nothing, workspaces=least, in_place=None, runs_in_place=False, adjacent=None)
    return alone, 0


def _largest(graph: ComputationGraph) -> list[int]:
    """For each node that is computed itself its working set, or 0 where larger ones leave no room below
    `TOTAL_LIMIT`."""
    left, kept = TOTAL_LIMIT, [0] * len(graph.nodes)
    computed = [v for v in range(len(kept)) if graph.output_of is None or graph.output_of[v] is None]
    for v in sorted(computed, key=lambda v: -graph.working_sets[v]):
        if graph.working_sets[v] > left:
            break
        kept[v] = graph.working_sets[v]
        left -= kept[v]
    return kept


# --- Graphs of one output for each operation, for what knows no others ----------------------------------------


def single_outputs(graph: ComputationGraph) -> ComputationGraph:
    """The graph in which outputs of one operation are one, under the first one's id, retained until the last read of
    any; itself, if each operation has one output. No outputs may be read as one, which `Feature.SIDE_BY_SIDE` is."""
    if graph.output_of is None:
        return graph
    first = graph.operation_of
    kept = [v for v, of in enumerate(graph.output_of) if of is None]
    place = {v: at for at, v in enumerate(kept)}

    def of_kept(values: Sequence[Kept]) -> tuple[Kept, ...]:
        return tuple(values[v] for v in kept)

    edges = {(place[first[u]], place[first[v]]): None for u, v in graph.edges if first[u] != first[v]}
    in_place = graph.in_place and of_kept(graph.in_place)  # not of or over several: they are larger, and end later
    return replace(
        graph,
        nodes=of_kept(graph.nodes),
        durations=of_kept(graph.durations),
        sizes=tuple(graph.sizes[v] + sum(graph.sizes[u] for u in graph.outputs_of[v]) for v in kept),
        edges=tuple(edges),
        order=None if graph.order is None else tuple(place[v] for v in graph.order if v in place),
        labels=graph.labels and of_kept(graph.labels),
        backward=graph.backward and of_kept(graph.backward),
        device_durations={device: of_kept(of) for device, of in graph.device_durations.items()},
        workspaces=graph.workspaces and of_kept(graph.workspaces),
        in_place=in_place
        and tuple(
            tuple(place[u] for u in row if u in place and not graph.outputs_of[u] and not graph.outputs_of[v])
            for v, row in zip(kept, in_place, strict=True)
        ),
        computed_once=tuple(place[v] for v in graph.computed_once if v in place),
        operators=None,
        parts=graph.parts and of_kept(graph.parts),
        output_of=None,
    )
