"""How large the model of a whole instance is, and whether that is too much for memory or for the time."""

from __future__ import annotations

from moccasin_mzn.problem.instance import Instance

MODEL_READS = 100_000
"""Reads by copies (edges times the square of C) of the largest instance whose whole model is tried at all: some GB."""
READS_PER_SECOND = 1_000
"""About how many of them are compiled in a second."""
COMPILING_SHARE = 0.25
"""Of the time left that compiling the whole model may take."""


def reads_by_copies(instance: Instance) -> int:
    """The size of the whole model, but for a factor: for each edge, pairs of copies of its two nodes."""
    most = instance.max_computations
    if isinstance(instance.counts, int):
        return most[0] ** 2 * len(instance.graph.edges)
    return sum(most[u] * most[v] for u, v in instance.graph.edges)


def why_too_large(instance: Instance, seconds: float | None) -> str | None:
    """Why the whole model is left out, as the beginning of a note; None: it is not.

    Args:
        seconds: that are left for compiling and solving; None: no limit.
    """
    reads = reads_by_copies(instance)
    if reads <= MODEL_READS and (seconds is None or reads <= READS_PER_SECOND * COMPILING_SHARE * seconds):
        return None
    why = f"{reads:,} reads by copies" + ("" if reads > MODEL_READS else f" for {max(0.0, seconds or 0.0):.0f} s")
    return f"the whole model is left out, {why} is too much"
