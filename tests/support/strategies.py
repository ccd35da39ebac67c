"""Random graphs and sequences for hypothesis."""

from __future__ import annotations

import dataclasses

from hypothesis import strategies as st

from moccasin_mzn.graphs.graph import ComputationGraph

_IDS = st.one_of(st.integers(-50, 50), st.text("abcxyz/_.é", min_size=1, max_size=4))
_AMOUNTS = st.integers(0, 1000)


@st.composite
def graphs(draw: st.DrawFn, max_nodes: int = 8, workspaces: bool = False) -> ComputationGraph:
    """A graph of 1 to `max_nodes` nodes with mixed ids; with an input order, labels and units, or without. With
    `workspaces` nodes may have some."""
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
        workspaces=draw(st.none() | amounts) if workspaces else None,
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


_KEYS_OF_THE_FORMAT = {"name", "order", "duration_unit", "size_unit", "fixed_memory", "computed_once"}
_ODD_TEXT = st.text("\"'\\<>&;{}[]#%=-/*+nlNG\n\r\t\x00\x0b\x85\u2028\ufeff\ufffe é1", max_size=8) | st.text(max_size=8)
_ODD_IDS = st.one_of(
    _IDS,
    st.integers(-(2**63) + 1, 2**63 - 1),
    st.integers().map(str),
    st.sampled_from(["node", "Graph", "-0", "01", "1.0", "1e3", "true", "]]>", "&lt;", "->", "/*", "//", "\\", 'a\\"']),
    _ODD_TEXT.map(str.strip).filter(lambda text: text and text.isprintable()),
)
_JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | _ODD_TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_ODD_TEXT, inner, max_size=3),
    max_leaves=6,
)


@st.composite
def odd_graphs(draw: st.DrawFn, max_nodes: int = 6) -> ComputationGraph:
    """Like `graphs`, but every text and every id may be anything that the graph accepts, and amounts are large."""
    plain = draw(graphs(max_nodes))
    n = len(plain.nodes)
    largest = st.integers(0, 2**53 // n)
    amounts = st.lists(largest, min_size=n, max_size=n)
    sizes = draw(amounts)
    left = 2**53 - sum(sizes)
    keys = _ODD_TEXT.filter(lambda key: key not in _KEYS_OF_THE_FORMAT)
    return dataclasses.replace(
        plain,
        nodes=draw(st.lists(_ODD_IDS, min_size=n, max_size=n, unique_by=str)),
        durations=draw(amounts),
        sizes=sizes,
        name=draw(_ODD_TEXT),
        labels=draw(st.none() | st.lists(_ODD_TEXT, min_size=n, max_size=n)),
        duration_unit=draw(_ODD_TEXT),
        size_unit=draw(_ODD_TEXT),
        attributes=draw(st.dictionaries(keys, _JSON_VALUES, max_size=3)),
        workspaces=draw(st.none() | st.lists(st.integers(0, left // n), min_size=n, max_size=n)),
        fixed_memory=draw(st.dictionaries(_ODD_TEXT.filter(str.isprintable), st.integers(0, 2**40), max_size=2)),
        computed_once=draw(st.lists(st.integers(0, n - 1), unique=True)),
    )
