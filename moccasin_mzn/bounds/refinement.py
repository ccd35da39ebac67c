"""What a block relaxation sees, finer and finer: where the schedule that its solution suggests is over the budget."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from moccasin_mzn.bounds.realise import Computation
from moccasin_mzn.bounds.relaxation import Relaxation
from moccasin_mzn.problem.stages import Stages


@dataclass
class Refinement:
    """Stages, moments and watched recomputations (see `relaxation`)."""

    stages: Stages
    chosen: set[int]
    moments: set[int] = field(default_factory=set)
    watched: set[tuple[int, int]] = field(default_factory=set)
    step: int | None = None
    """How much more than the bound is asked for; None: anything."""
    exhausted: bool = False
    """There is nothing to refine."""
    _latest: Relaxation | None = field(default=None, repr=False)

    def relaxation(self) -> Relaxation:
        """The relaxation that sees all this."""
        if self._latest is None:
            self._latest = Relaxation.of(self.stages, self.chosen, self.moments, self.watched)
        return self._latest

    def refine(self, seen: Relaxation, computations: Iterable[Computation], unanswered: bool) -> bool:
        """See more of what exceeds the budget most, first computations first; False if that is all.

        Args:
            seen: whose solution suggested the computations.
            unanswered: perhaps there is no schedule: stages and moments show that soonest.
        """
        self._latest = None
        over = sorted((c for c in computations if c.memory > self.stages.budget), key=lambda c: -c.memory)
        unseen = [c.stage for c in over if c.node == c.stage and c.stage not in self.chosen]
        for c in over:
            block = seen.block(c.stage)
            firsts = [k for k in unseen if unanswered or seen.block(k) == block]
            if firsts:  # of a narrower block a watch tells more
                self.chosen.add(firsts[0])
                return True
            if c.node != c.stage and unanswered and seen.last(block) not in self.moments:
                self.moments.add(seen.last(block))  # of all nodes at once
                return True
            if c.node != c.stage and not seen.watches(c.node, c.stage):
                self.watched.add((c.node, c.stage))
                return True
        for k in (k for c in over for k in (c.stage, c.stage - 1)):
            if k not in self.chosen:
                self.chosen.add(k)
                return True
        return False
