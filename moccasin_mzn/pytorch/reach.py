"""Which outputs' gradients each gradient of a step is made of: without any of them autograd makes none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from moccasin_mzn.pytorch.computations import Computation, Computations, Root
from moccasin_mzn.pytorch.joint import TANGENT

if TYPE_CHECKING:
    from torch import fx


def reached(program: Computations) -> tuple[frozenset[int], ...]:
    """For each gradient of a step the positions of the tangents that it depends on."""
    joint = program.joint
    position = {node: at for at, node in enumerate(joint.of_kind(TANGENT))}
    of: dict[Computation, frozenset[int]] = {}
    for made in program.all:
        read = [pair for member in made.members for pair in program.reads[member.node].items()]
        of[made] = _through([(root, version) for root, version in read if version is not made], of, position)
    results = [list(program.roots[node].values()) if node is not None else [] for node in joint.gradients]
    return tuple(_through([(root, program.final[root]) for root in roots], of, position) for roots in results)


def _through(
    read: Sequence[tuple[Root, Computation | None]], of: Mapping[Computation, frozenset[int]],
    position: Mapping[fx.Node, int],
) -> frozenset[int]:  # fmt: skip
    """What versions of memories depend on; None: what was given."""
    given = frozenset(position[root.node] for root, made in read if made is None and root.node in position)
    return given.union(*(of[made] for _, made in read if made is not None))
