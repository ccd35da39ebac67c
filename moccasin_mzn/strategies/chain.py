"""Recognising a training chain: a path forward, and a backward pass that goes back along it. ::

    forward     1 --> 2 --> 3 --> ... --> L
                |  /  |  /  |             |
    backward    g1 <- g2 <- g3 <- ... <- loss

Of the forward pass a backward node reads at most the output of its own step and that of the step after it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from moccasin_mzn.errors import NotApplicableError
from moccasin_mzn.graphs.wording import node_text
from moccasin_mzn.pages import Page
from moccasin_mzn.problem.instance import Instance
from moccasin_mzn.strategies.passes import Passes


@dataclass(frozen=True)
class Chain:
    """A training chain, numbered along the input order: L forward nodes, and then its backward steps."""

    durations: tuple[int, ...]
    """Of the forward nodes."""
    sizes: tuple[int, ...]
    """Of their outputs."""
    lowest: tuple[int, ...]
    """For each node of the backward pass the least state, 1..L, that it or a node before it reads."""

    @classmethod
    def of(cls, instance: Instance) -> Chain:
        """Recognise a training chain.

        Raises:
            NotApplicableError: it is none; the message names the first node, or edge, that tells.
        """
        passes = Passes.of(instance)
        name = [node_text(instance.graph, v) for v in passes.order]
        length = _forward_length(passes, name)
        lowest, state = [], length
        for v in range(length, len(passes.order)):
            reads = [u + 1 for u in passes.inputs[v] if u < length]
            state = min([state, *reads])
            if reads and reads[-1] > state + 1:
                raise _no_chain(f"node {name[v]} reads node {name[reads[-1] - 1]}, which is not of its step")
            lowest.append(state)
            if passes.backward is None and v - 1 not in passes.inputs[v]:
                raise _no_chain(f"node {name[v]} does not read node {name[v - 1]}, the one before it")
        return cls(passes.duration[:length], passes.size[:length], tuple(lowest))


def _forward_length(passes: Passes, name: Sequence[str]) -> int:
    """Of the path at the beginning: all forward nodes, or, if they are not known, as many as possible."""
    for v, inputs in enumerate(passes.inputs):
        if passes.backward is None:
            if inputs != _before(v):
                return v
        elif passes.backward[v]:
            late = next((w for w in passes.forward if w > v), None)
            if late is not None:
                raise _no_chain(f"node {name[late]} is a forward node, but comes after node {name[v]}, a backward one")
            if v == 0:
                raise _no_chain("there is no forward pass")
            return v
        elif inputs[-1:] != _before(v):
            raise _no_chain(f"node {name[v]} does not read node {name[v - 1]}, the one before it")
        elif len(inputs) > 1:
            raise _no_chain(f"node {name[v]} reads node {name[inputs[0]]}, not only node {name[v - 1]}")
    raise _no_chain("there is no backward pass")


def _before(v: int) -> tuple[int, ...]:
    return (v - 1,) if v else ()


def _no_chain(why: str) -> NotApplicableError:
    return NotApplicableError(Page.STRATEGIES.after(f"for training chains only: {why}"))
