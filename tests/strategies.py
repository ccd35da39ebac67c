"""Random graphs and sequences for hypothesis."""

from __future__ import annotations

from hypothesis import strategies as st

from moccasin_mzn.graph import ComputationGraph

_IDS = st.one_of(st.integers(-50, 50), st.text("abcxyz/_.é", min_size=1, max_size=4))
_AMOUNTS = st.integers(0, 1000)


@st.composite
def graphs(draw: st.DrawFn, max_nodes: int = 8) -> ComputationGraph:
    """A graph of 1 to `max_nodes` nodes with mixed ids; with an input order, labels and units, or without."""
    ids = draw(st.lists(_IDS, min_size=1, max_size=max_nodes, unique_by=str))
    n = len(ids)
    amounts = st.lists(_AMOUNTS, min_size=n, max_size=n)
    order = draw(st.permutations(range(n)))
    pairs = [(order[i], order[j]) for j in range(n) for i in range(j)]
    edges = draw(st.lists(st.sampled_from(pairs), unique=True)) if pairs else []
    return ComputationGraph(
        nodes=ids,
        durations=draw(amounts),
        sizes=draw(amounts),
        edges=edges,
        order=order if draw(st.booleans()) else None,
        name=draw(st.text(max_size=5)),
        labels=draw(st.none() | st.lists(st.text(max_size=3), min_size=n, max_size=n)),
        duration_unit=draw(st.sampled_from(["unit", "FLOP"])),
        size_unit=draw(st.sampled_from(["unit", "byte"])),
        attributes=draw(st.dictionaries(st.sampled_from(["made_by", "seed"]), st.integers() | st.text(max_size=3))),
        backward=draw(st.none() | st.lists(st.booleans(), min_size=n, max_size=n)),
    )


@st.composite
def any_sequences(draw: st.DrawFn, graph: ComputationGraph, max_length: int = 14) -> tuple[int, ...]:
    """Positions of nodes in any order, often with missing inputs."""
    return tuple(draw(st.lists(st.integers(0, len(graph.nodes) - 1), max_size=max_length)))


@st.composite
def valid_sequences(draw: st.DrawFn, graph: ComputationGraph, max_extra: int = 6) -> tuple[int, ...]:
    """Every node computed after its inputs, and up to `max_extra` recomputations anywhere after."""
    sequence = list(graph.input_order())
    for _ in range(draw(st.integers(0, max_extra))):
        at = draw(st.integers(0, len(sequence) - 1))
        later = draw(st.integers(at + 1, len(sequence)))
        sequence.insert(later, sequence[at])
    return tuple(sequence)
