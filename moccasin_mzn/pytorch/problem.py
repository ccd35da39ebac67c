"""A traced step as a graph whose schedules are plans: constants left out, the cut between the passes a node of its own.

    forward computations ---> cut ---> tangents, backward computations ---> results

The cut reads what the step returns and what goes back into buffers. Outputs, tangents and gradients stay to the end, as
whoever calls the step holds them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.graphs.importers.program import Missing, Operation, Program, known_total, program_graph, unique_names
from moccasin_mzn.graphs.importers.torch_nodes import elements_of, group_duration, kind_of
from moccasin_mzn.graphs.importers.torch_paths import PATH
from moccasin_mzn.pytorch.computations import Computation, Computations, Root
from moccasin_mzn.pytorch.joint import BUFFER, INPUT, PARAMETER, TANGENT
from moccasin_mzn.pytorch.randomness import draws

if TYPE_CHECKING:
    from torch import fx


@dataclass(frozen=True, eq=False)
class Cut:
    """The end of the forward pass."""


@dataclass(frozen=True)
class Planned:
    """A graph to find schedules of."""

    graph: ComputationGraph
    meanings: tuple[Computation | Cut | Root | None, ...] = field(repr=False)
    """For each node what it stands for: a computation, the cut, a tangent, or None, the results."""
    most: tuple[bool, ...] = field(repr=False)
    """For each node: may it be computed more than once?"""

    def counts(self, most: int) -> list[int]:
        """How often each node may be computed."""
        return [most if many else 1 for many in self.most]


def planned(program: Computations) -> Planned:
    """The graph of a traced step."""
    joint = program.joint
    tangents = [program.roots[node][-1] for node in joint.of_kind(TANGENT)]
    gradients = [program.final[root] for node in joint.gradients if node for root in program.roots[node].values()]
    returned = [*program.outputs.values(), *program.written_back.values()]
    lost = _lost_effects(program, [made for made in (*returned, *gradients) if made is not None])
    kept = [made for made in program.all if made.live]
    cut = Cut()
    row: list[Computation | Cut | Root] = [
        *(made for made in kept if not made.backward), cut, *tangents, *(made for made in kept if made.backward)
    ]  # fmt: skip
    named = [each.name if isinstance(each, Computation) else _name(each) for each in row]
    names: dict[Any, str] = dict(zip(row, unique_names(named), strict=True))
    ends = [made for made in (*returned, *lost) if made is not None and made.live and not made.backward]
    operations = [
        _operation(program, each, names) if isinstance(each, Computation) else _other(each, ends, names) for each in row
    ]
    results = [*program.outputs.values(), *gradients, *(made for made in lost if made.backward)]
    last = [names[cut], *map(names.__getitem__, tangents), *(names[m] for m in results if m is not None and m.live)]
    fixed = {
        kind + "s": sum(root.bytes for node in joint.of_kind(kind) for root in program.roots[node].values())
        for kind in (PARAMETER, BUFFER, INPUT)
    }
    traced = Program(tuple(operations), tuple(dict.fromkeys(last)), "training step", "FLOP", fixed)
    graph = program_graph(traced, Missing())
    by_name: dict[Any, Any] = {name: each for each, name in names.items()}
    meanings = tuple(by_name.get(node) for node in graph.nodes)
    return Planned(graph, meanings, tuple(isinstance(each, Computation) and not each.once for each in meanings))


def _name(each: Cut | Root) -> str:
    return "cut" if isinstance(each, Cut) else f"tangent_{each.node.name}"


def _operation(program: Computations, made: Computation, names: dict[Any, str]) -> Operation:
    nodes = [member.node for member in made.members]
    copied = [root.value for member in made.members for root in member.copied]
    durations = (group_duration(member.node, member.outputs) for member in made.members)
    path = nodes[0].meta.get(PATH)
    kind = " + ".join(map(kind_of, nodes))
    return Operation(
        names[made],
        f"{path} {kind}" if path else kind,
        tuple(dict.fromkeys(names[each] for each in _sources(program, made) if each in names)),
        sum(root.bytes for root in made.makes),
        elements_of(root.value for root in made.makes),
        known_total([*durations, elements_of(copied)]),
        backward=made.backward,
    )


def _sources(program: Computations, made: Computation) -> Iterable[Computation | Root]:
    """What a computation reads: what others make, and what is given."""
    for member in made.members:
        for root, version in program.reads[member.node].items():
            if version is not made:
                yield version or root


def _other(each: Cut | Root, ends: Sequence[Computation], names: dict[Any, str]) -> Operation:
    if isinstance(each, Cut):
        return Operation(names[each], "cut", tuple(dict.fromkeys(names[made] for made in ends)), 0, 0, 0)
    return Operation(names[each], "tangent", (), each.bytes, 0, 0, backward=True)


def _lost_effects(program: Computations, results: list[Computation]) -> list[Computation]:
    """What takes random numbers or updates statistics, but is needed for nothing."""

    def effect(node: fx.Node) -> bool:
        return draws(node) or any(root in program.in_place for root in program.reads[node])

    needed: set[Computation] = set()
    waiting = list(results)
    while waiting:
        made = waiting.pop()
        if made not in needed:
            needed.add(made)
            waiting.extend(made.inputs)
    return [
        made for made in program.all
        if made not in needed and made.live and any(effect(member.node) for member in made.members)
    ]  # fmt: skip
