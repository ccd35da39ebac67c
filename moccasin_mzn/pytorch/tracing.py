"""A step with all that is known of it before there is a plan."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from moccasin_mzn.pytorch.call import Form, Step, Structure
from moccasin_mzn.pytorch.computations import Computations, computations
from moccasin_mzn.pytorch.guards import Guards
from moccasin_mzn.pytorch.joint import Joint, trace_joint
from moccasin_mzn.pytorch.problem import Planned, planned
from moccasin_mzn.pytorch.program import Linear, linear
from moccasin_mzn.pytorch.sequences import meant


@dataclass(frozen=True, eq=False)
class Traced:
    """A step, traced, and the graph that it comes to."""

    step: Step
    arguments: Structure
    forms: tuple[Form, ...]
    """Of the inputs."""
    joint: Joint = field(repr=False)
    program: Computations = field(repr=False)
    problem: Planned = field(repr=False)
    guards: Guards = field(repr=False)

    @classmethod
    def of(cls, step: Step, arguments: Structure, forms: Sequence[Form]) -> Traced:
        joint = trace_joint(step, arguments, forms)
        program = computations(joint)
        guards = Guards.of(step.model, joint, arguments)
        return cls(step, arguments, tuple(forms), joint, program, planned(program), guards)

    def linear(self, sequence: Sequence[int]) -> Linear:
        """The instructions of a schedule."""
        return linear(self.program, meant(self.problem, sequence))
