"""A traced step as a graph whose schedules are plans, the cut between the passes a node of its own.

    forward computations ---> cut ---> tangents, backward computations ---> results

The cut reads what the step returns and what goes back into buffers. Outputs, tangents and gradients stay to the end, as
the caller of the step holds them; but gradients that are accumulated are read by nodes that add them to `.grad`, right
after they are made.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from moccasin_mzn.graphs.graph import ComputationGraph, NodeId
from moccasin_mzn.graphs.importers.program import Missing, Operation, Program, known_total, program_graph, unique_names
from moccasin_mzn.graphs.importers.torch.nodes import elements_of, group_duration, kind_of
from moccasin_mzn.graphs.importers.torch.paths import PATH
from moccasin_mzn.pytorch.computations import Computation, Computations, Root
from moccasin_mzn.pytorch.devices import communicates, draws
from moccasin_mzn.pytorch.joint import BUFFER, INPUT, PARAMETER, TANGENT, is_number
from moccasin_mzn.pytorch.values import is_check

if TYPE_CHECKING:
    from torch import fx

SCOPE = "in the traced order with as many computations as are allowed"
"""The scope of what is proven of plans, to be read after "plans"."""


@dataclass(frozen=True, eq=False)
class Cut:
    """The end of the forward pass."""


@dataclass(frozen=True, eq=False)
class Accumulation:
    """A gradient is added to the `.grad` of its parameter."""

    parameter: fx.Node
    """The placeholder."""
    gradient: fx.Node


Other = Cut | Accumulation | Root
"""What nodes stand for that compute nothing."""


@dataclass(frozen=True)
class StepProblem:
    """A graph to find schedules of."""

    graph: ComputationGraph
    meanings: tuple[Computation | Other | None, ...] = field(repr=False)
    """For each node what it stands for: a computation, the cut, a tangent, the accumulation of a gradient, or None, the
    results."""
    most: tuple[bool, ...] = field(repr=False)
    """For each node: may it be computed more than once?"""
    movable: tuple[bool, ...] = field(repr=False)
    """For each node: may it be computed earlier or later within the backward pass than in the trace?"""
    reordered: bool = False
    """Is that so in the order of the graph?"""

    def counts(self, most: int) -> list[int]:
        """How often each node may be computed."""
        return [most if many else 1 for many in self.most]

    def is_backward(self, v: int) -> bool:
        """Does a node come after the cut?"""
        meaning = self.meanings[v]
        return meaning.backward if isinstance(meaning, Computation) else not isinstance(meaning, Cut)


def planned(program: Computations, accumulated: bool = False) -> StepProblem:
    """The graph of a traced step.

    Args:
        accumulated: gradients of parameters are added to `.grad` as they are made.
    """
    joint = program.joint
    accumulations = _accumulations(program) if accumulated else []
    tangents = [program.roots[node][-1] for node in joint.of_kind(TANGENT)]
    gradients = [program.final[root] for node in joint.gradients for root in _roots(program, node)]
    returned = [*program.outputs.values(), *program.written_back.values()]
    needed = _needed(made for made in (*returned, *gradients) if made is not None)
    lost = [made for made in program.all if made not in needed and _has_effect(program, made)]
    needed |= _needed(lost)
    kept = [made for made in program.all if made in needed]
    cut = Cut()
    backward = _with_accumulations(program, [made for made in kept if made.backward], accumulations)
    row: list[Computation | Other] = [*(made for made in kept if not made.backward), cut, *tangents, *backward]
    named = [each.name if isinstance(each, Computation) else _name(program, each) for each in row]
    names: dict[Computation | Other, str] = dict(zip(row, unique_names(named), strict=True))
    ends = [made for made in (*returned, *lost) if made is not None and not made.backward]
    operations = [
        _operation(program, each, names) if isinstance(each, Computation) else _other(program, each, ends, names)
        for each in row
    ]
    added = {each.gradient for each in accumulations}
    retained = [program.final[root] for node in joint.gradients if node not in added for root in _roots(program, node)]
    results = [*program.outputs.values(), *retained, *(made for made in lost if made.backward)]
    read = {source for made in kept for source in _sources(program, made)}
    pinned: list[Computation | Other] = [
        cut,
        *(tangent for tangent in tangents if tangent not in read or is_number(tangent.node)),
        *accumulations,
        *(made for made in results if made is not None),
    ]
    last = [names[each] for each in pinned]
    fixed = {
        kind + "s": sum(root.bytes for node in joint.of_kind(kind) for root in program.roots[node].values())
        for kind in (PARAMETER, BUFFER, INPUT)
    }
    traced = Program(tuple(operations), tuple(dict.fromkeys(last)), "training step", "FLOP", fixed)
    graph = program_graph(traced, Missing())
    by_name: dict[NodeId, Computation | Other] = {name: each for each, name in names.items()}
    meanings = tuple(by_name.get(node) for node in graph.nodes)
    most = tuple(isinstance(each, Computation) and not each.once for each in meanings)
    return StepProblem(graph, meanings, most, _movable(program, meanings))


def _movable(program: Computations, meanings: Sequence[Computation | Other | None]) -> tuple[bool, ...]:
    """Which nodes of the backward pass have no effect, and additions to a `.grad` to which nothing else is added.

    What is computed by the same operator as something that is not movable is not either: it would be called twice.
    """
    added = Counter(each.parameter for each in meanings if isinstance(each, Accumulation))
    firm = {
        member.node
        for made in program.all
        if made.once or not made.backward or _has_effect(program, made)
        for member in made.members
    }

    def may_move(each: Computation | Other | None) -> bool:
        if isinstance(each, Accumulation):
            return added[each.parameter] == 1
        return isinstance(each, Computation) and not any(member.node in firm for member in each.members)

    return tuple(map(may_move, meanings))


def _roots(program: Computations, gradient: fx.Node | None) -> list[Root]:
    return [] if gradient is None else list(program.roots[gradient].values())


def _accumulations(program: Computations) -> list[Accumulation]:
    """Return the accumulations of all gradients of parameters."""
    joint = program.joint
    pairs = zip(joint.wanted, joint.gradients, strict=True)
    return [Accumulation(to, each) for to, each in pairs if each is not None and joint.given[to].kind == PARAMETER]


def _with_accumulations(
    program: Computations, backward: Sequence[Computation], accumulations: Sequence[Accumulation]
) -> list[Computation | Other]:
    """The computations of the backward pass, each accumulation right after the one that makes the gradient, but not
    between those that one call of a traced node makes."""
    last = {member.node: at for at, made in enumerate(backward) for member in made.members}
    computed = set(backward)
    after: dict[int, list[Accumulation]] = {}
    for each in accumulations:
        made = [final for root in _roots(program, each.gradient) if (final := program.final[root]) in computed]
        ends = (last[member.node] for final in made if final is not None for member in final.members)
        after.setdefault(max(ends, default=-1), []).append(each)
    found: list[Computation | Other] = [*after.get(-1, [])]
    for at, made_here in enumerate(backward):
        found += [made_here, *after.get(at, [])]
    return found


def _name(program: Computations, each: Other) -> str:
    if isinstance(each, Accumulation):
        return f"add_to_grad_of_{program.joint.given[each.parameter].name}"
    return "cut" if isinstance(each, Cut) else f"tangent_{each.node.name}"


def _operation(program: Computations, made: Computation, names: dict[Computation | Other, str]) -> Operation:
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


def _other(
    program: Computations, each: Other, ends: Sequence[Computation], names: dict[Computation | Other, str]
) -> Operation:
    if isinstance(each, Accumulation):
        read = [program.final[root] or root for root in _roots(program, each.gradient)]
        return Operation(
            names[each], "accumulation", tuple(names[r] for r in read if r in names), 0, 0, 0, backward=True
        )
    if isinstance(each, Cut):
        return Operation(names[each], "cut", tuple(dict.fromkeys(names[made] for made in ends)), 0, 0, 0)
    return Operation(names[each], "tangent", (), each.bytes, 0, 0, backward=True)


def _has_effect(program: Computations, made: Computation) -> bool:
    """Does it take random numbers, update statistics, communicate or compare what was read?"""
    nodes = [member.node for member in made.members]
    return any(
        draws(node)
        or communicates(node)
        or is_check(node)
        or any(root in program.in_place for root in program.reads[node])
        for node in nodes
    )


def _needed(results: Iterable[Computation]) -> set[Computation]:
    """Results, and what they are computed of."""
    found: set[Computation] = set()
    waiting = list(results)
    while waiting:
        made = waiting.pop()
        if made not in found:
            found.add(made)
            waiting.extend(made.inputs)
    return found
