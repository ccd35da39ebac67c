"""Features: what a question can have in addition to graph, order and budget; which part handles which.

::

    data of a problem ── features ──> {in place, workspaces, ...}  ┐
    how it is asked ─────────────────> {offsets, certificate, ...}  ├── refused ──> one sentence, or None
    part.handles: searches, models, judges, strategies, modes  ─────┘

Each part declares in one line, next to its name, which features it `handles`. What a part skips, what a request refuses
and the table of docs/features.md follow from these lines, and from nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from itertools import combinations
from types import MappingProxyType
from typing import Protocol

from moccasin_mzn.base.doc_links import Page
from moccasin_mzn.base.errors import InputError
from moccasin_mzn.base.option import flag
from moccasin_mzn.graphs.graph import ComputationGraph


class Feature(Enum):
    """A feature of a question: its name for people, the argument that brings it, and what brings it, in a few words."""

    # of graphs
    WORKSPACES = "workspaces", "", "memory of an operation while it runs"
    OUTPUTS = "several outputs", "", "operations with more than one output"
    IN_PLACE = "in place", "in_place", "outputs that overwrite an input after its last read"
    SIDE_BY_SIDE = "outputs side by side", "zero_copy_concat", "read as one, as concatenations without copies are"
    PARTS = "parts", "", "nodes that are rows or tiles of an operator's output"
    # of problems
    ANY_ORDER = "any order", "order", "the order is chosen as well"
    COUNTS = "limits by node", "max_computations", "a number of computations for each node of its own"
    PAGING = "paging", "paging", "copies in a memory that does not compute"
    DEVICES = "several devices", "devices", "memories that compute, and links between them"
    POOLS = "several memories of one device", "memories", "each output lies in one of them"
    GOALS = "other goals", "goal", "energy or traffic, limits on totals"
    # of how it is asked
    OFFSETS = "offsets", "addresses", "an arena instead of a sum"
    ITERATIONS = "iterations", "iterations", "a search that counts its work"
    RACE = "several solvers", "solver", "solvers that race"
    OWN_MODEL = "a model of one's own", "model", "in place of a formulation's"
    STRATEGY = "a strategy", "strategy", "a rule in place of a search"
    CERTIFICATE = "a certificate", "certificate", "a proof in a file"
    ZERO_COPY = "taking out concatenations", "zero_copy_concat", "before all else"
    TILE = "tiling", "tile", "layers are cut into parts"
    LEAST = "the least budget", "", "sought first"
    FRONTIER = "a frontier", "", "many budgets"

    @property
    def called(self) -> str:
        """The name for people."""
        return self.value[0]

    @property
    def argument(self) -> str:
        """The argument that brings it; empty: the graph has it."""
        return self.value[1]

    @property
    def description(self) -> str:
        """What the feature is, in a few words."""
        return self.value[2]


Features = frozenset[Feature]
OF_GRAPHS = Features(
    {Feature.WORKSPACES, Feature.OUTPUTS, Feature.IN_PLACE, Feature.SIDE_BY_SIDE, Feature.PARTS}
)  # fmt: skip
"""Features that graphs have."""
SEVERAL_MEMORIES = Features({Feature.PAGING, Feature.DEVICES, Feature.POOLS})
"""Features of problems whose answers are plans."""
OF_ONE_MEMORY = OF_GRAPHS | {Feature.ANY_ORDER, Feature.COUNTS}
"""Features that problems of one memory have."""
OF_PROBLEMS = OF_PLANS = OF_ONE_MEMORY | SEVERAL_MEMORIES | {Feature.GOALS}
"""Features that problems of several memories have, and so all that problems have."""
MODES = Features(Feature) - OF_PROBLEMS
"""Features of how a question is asked."""


class Component(Protocol):
    """A component of the program that takes problems: a search, a model, a judge, a strategy or a mode."""

    @property
    def name(self) -> str:
        """The name for people."""

    @property
    def handles(self) -> Features:
        """The features that it takes into account exactly, or at least so that what it finds and proves is right."""


@dataclass(frozen=True)
class Ability:
    """A component that is no object of its own: a judge, or a way of asking."""

    name: str
    handles: Features
    reasons: Mapping[Feature, str] = field(default_factory=lambda: MappingProxyType({}), hash=False)
    """Why it does not handle a feature, where that is no matter of building it."""
    of: Feature | None = None
    """The way of asking that it is."""

    def __post_init__(self) -> None:
        if self.of is not None:
            object.__setattr__(self, "handles", self.handles | {self.of})


JUDGES = Ability("judge of schedules", OF_ONE_MEMORY), Ability("judge of plans", OF_PLANS)
"""What the simulators of `judges` take into account."""


def graph_features(graph: ComputationGraph) -> Features:
    """Return the features that a graph has."""
    has = {
        Feature.WORKSPACES: any(graph.workspaces or ()),
        Feature.OUTPUTS: graph.output_of is not None,
        Feature.IN_PLACE: graph.overwritable is not None,
        Feature.SIDE_BY_SIDE: graph.adjacent is not None,
        Feature.PARTS: graph.parts is not None,
    }
    return Features(feature for feature, present in has.items() if present)


def lacking(part: Component, features: Features) -> tuple[str, ...]:
    """Return the names of the features that a part does not handle, in the order of `Feature`."""
    return tuple(one.called for one in Feature if one in features - part.handles)


# --- Refusals -------------------------------------------------------------------------------------------------


Spelled = Mapping[Feature, str]
"""How a user asked for a feature, such as "--in-place"; what is missing has the `flag` of its argument, if any."""
NOT_ASKED: Spelled = MappingProxyType({})
NONE = Features()
NOTHING_SEARCHES = "no search and no model handles"


def refuse(
    features: Features, parts: Iterable[Component], none: str, spelled: Spelled = NOT_ASKED, named: Features = NONE,
    reasons: Mapping[Feature, str] = NOT_ASKED,
) -> None:  # fmt: skip
    """Refuse what no part handles together.

    Args:
        none: the subject and verb of the refusal, such as "no search and no model handles".
        spelled: how the user asked for it.
        named: features that the refusal is to name in any case.
        reasons: in place of that nothing handles it.

    Raises:
        InputError: one sentence about a least set of features that nothing handles.
    """
    some = unhandled(features, tuple(parts), named)
    if some:
        all_of = "that" if len(some) == 1 else "both" if len(some) == 2 else "all of these"
        why = next((reasons[one] for one in some if one in reasons), f"{none} {all_of}")
        names = [one.called for one in some]
        subject = names[0] if len(names) == 1 else f"{', '.join(names[:-1])} with {names[-1]}"
        raise InputError(Page.FEATURES.after(f"{subject}: {why}{_leave(some, spelled)}"))


def refuse_unsolved(features: Features, parts: Iterable[Component], spelled: Spelled = NOT_ASKED) -> None:
    """Refuse features of a problem that none of the parts handles together; those of several memories are named.

    Raises:
        InputError: see `refuse`.
    """
    refuse(features, parts, NOTHING_SEARCHES, spelled, features & SEVERAL_MEMORIES)


def unhandled(features: Features, parts: Sequence[Component], named: Features = NONE) -> tuple[Feature, ...]:
    """Return a least set of features that no part handles together, `named` among them; empty: one handles all."""
    if any(features <= part.handles for part in parts):
        return ()
    others = [one for one in Feature if one in features - named]
    subsets = (named.union(some) for size in range(len(others) + 1) for some in combinations(others, size))
    least = next(some for some in subsets if some and not any(some <= part.handles for part in parts))
    return tuple(one for one in Feature if one in least)


def _leave(some: tuple[Feature, ...], spelled: Spelled) -> str:
    """What a user may leave out; some features are the graph's."""
    arguments = [spelled.get(one, flag(one.argument)) for one in some if one.argument]
    if len(arguments) < 2:
        return f": leave out {arguments[0]}" if arguments else ""
    return f": leave out {', '.join(arguments[:-1])} or {arguments[-1]}"
