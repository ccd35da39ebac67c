"""The certificate of a result: its schedule, and what of its bound can be proven so that anyone can check it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TypeVar

from moccasin_mzn.base.clock import Deadline
from moccasin_mzn.base.errors import InputError
from moccasin_mzn.base.files import JsonObject
from moccasin_mzn.base.log import note
from moccasin_mzn.bounds.certificates.document import (
    Proof,
    certificate,
    machine_document,
    prove,
    prove_in_blocks,
)
from moccasin_mzn.formulations import Formulation
from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.problem.features import MODES, OF_PROBLEMS, Ability, Feature
from moccasin_mzn.problem.instance import AUTO_COMPUTATIONS, Instance
from moccasin_mzn.problem.judges.certificates import Trust
from moccasin_mzn.problem.judges.certified_machines import machine_in
from moccasin_mzn.problem.judges.certified_memories import OneMemory, in_one_memory
from moccasin_mzn.problem.plan_problem import PlanProblem
from moccasin_mzn.search.conclusion import FLOW_COVERS, MOMENTS, RELAXATION, scope
from moccasin_mzn.search.result import Result

SECONDS = 60.0
"""Time for the proof in seconds, if the search had no time limit."""
AFTER_INTERRUPT = 5.0
"""Most seconds for the proof, if Ctrl-C has ended the search."""
SHARES = 0.15, 0.3, 0.95
"""Shares of that time at which the proof for all orders, the choice of a relaxation in blocks, and its proof end."""
CP_SAT = "CP-SAT"
Made = TypeVar("Made")
BY_CP_SAT = {"cp-sat": "the model", **{name: name for name in (RELAXATION, FLOW_COVERS, MOMENTS)}}
"""Searches whose bounds rest on CP-SAT, with their names in certificates."""


CERTIFICATES = Ability(
    "certificates", OF_PROBLEMS | MODES - {Feature.FRONTIER},
    MappingProxyType({Feature.FRONTIER: "a certificate is of one budget"}), Feature.CERTIFICATE,
)  # fmt: skip


def certificate_of(result: Result, time_limit: float | None, given: ComputationGraph | None = None) -> JsonObject:
    """Make the certificate of a result.

    It ranges over all orders, if such a bound meets the schedule or is as good as that for the input order.

    Args:
        time_limit: seconds for the proof, at most `AFTER_INTERRUPT` if an interrupt ended the search; None: `SECONDS`.
            Ctrl-C ends it before, with what is proven so far.
        given: the graph that was asked about; None: that of the result.
    """
    seconds = SECONDS if time_limit is None else time_limit
    deadline = Deadline(min(seconds, AFTER_INTERRUPT) if result.interrupted else seconds)
    check_budget(result.instance.budget)
    note(f"proving a bound for the certificate, at most {deadline.remaining():.0f} s; Ctrl-C ends it")
    about = _About.of(result)

    def make(stopped: Callable[[], bool]) -> JsonObject:
        along = _keeps_order(result)
        share = SHARES[0] if along else 1.0
        proof = about.prove(lambda: stopped() or deadline.over(share))
        for near in about.faster if not _enough(proof, about.duration) else ():
            other = replace(about, memories={**(about.memories or {}), "near": near})
            proof = _better(proof, other.prove(lambda: stopped() or deadline.over(share)))
        if along and not _enough(proof, about.duration):
            proof = _better(proof, _in_blocks(about, deadline, stopped))
        if along and not _enough(proof, about.duration):
            rest = about.prove(lambda: stopped() or deadline.over(), about.instance.order)
            proof = _better(proof, rest)
        proof = replace(proof, graph=about.instance.graph)
        return certificate(proof, about.sequence, trusted(result), given, about.duration)

    return _interruptible(make)


@dataclass(frozen=True)
class _About:
    """What is to be proven about."""

    instance: Instance
    duration: int | None
    """What the answer takes; of a plan what its goal counts."""
    sequence: tuple[int, ...] | None
    """The schedule, of one memory."""
    memories: JsonObject | None
    """The machine, if the answer is a plan of several memories."""

    @classmethod
    def of(cls, result: Result) -> _About:
        found = result.simulation is not None and result.simulation.feasible
        duration = result.duration if found else None
        if isinstance(result.problem, PlanProblem):
            value = result.value if found else None
            plan = result.answer if found else None
            machine = machine_document(result.problem.platform, result.problem.objective, plan)
            return cls(result.instance, value, None, machine)
        return cls(result.instance, duration, result.sequence if found else None, None)

    def in_one_memory(self, blocks: bool) -> tuple[Instance, OneMemory | None]:
        """The instance, of one memory with what plans of several need."""
        if self.memories is None:
            return self.instance, None
        one = in_one_memory(self.instance.graph, machine_in(self.instance.graph, self.memories), blocks)
        return replace(self.instance, graph=one.graph, budget=one.budget), one

    def prove(self, stop: Callable[[], bool], order: Sequence[int] | None = None) -> Proof:
        instance, one = self.in_one_memory(blocks=False)
        return replace(prove(instance.graph, instance.budget, self.duration, stop, order, one), memories=self.memories)

    @property
    def faster(self) -> list[list[int]]:
        """Memories that one device computes in, those where accesses take less than in the others, beginning with the
        fastest."""
        if self.memories is None or any(one["device"] for one in self.memories["memories"]):
            return []
        takes = [sum(one["accesses"] or ()) for one in self.memories["memories"]]
        costs = machine_in(self.instance.graph, self.memories).costs
        computing = [k for k, row in enumerate(costs) if any(cost is not None for cost in row)]
        near = [[k for k in computing if takes[k] <= most] for most in sorted(set(takes))[:-1]]
        return [some for some in near if some and some != computing]


def _enough(proof: Proof, duration: int | None) -> bool:
    return proof.bound is None or proof.bound == duration


def _better(one: Proof, other: Proof | None) -> Proof:
    """Return the better proof; the first, if they are as good."""
    if other is None or one.bound is None:
        return one
    return other if other.bound is None or other.bound > one.bound else one


def _in_blocks(about: _About, deadline: Deadline, stopped: Callable[[], bool]) -> Proof | None:
    """Prove by the block relaxation that a search with CP-SAT refines; None if absent."""
    from moccasin_mzn.bounds.input_order import Alongside, duration_bound

    instance, one = about.in_one_memory(blocks=True)
    more = replace(instance, max_computations=(AUTO_COMPUTATIONS,) * len(instance.graph.nodes))
    least = instance.graph.total_duration if one is None else one.once
    known = None if about.duration is None else about.duration - least + instance.graph.total_duration
    alongside = Alongside(stop=stopped, incumbent=lambda: known)
    found = duration_bound(more, time_limit=deadline.remaining(SHARES[1]) or 0.0, alongside=alongside)
    if found.relaxation is None:
        return None
    proof = prove_in_blocks(
        instance, found.relaxation, about.duration, lambda: stopped() or deadline.over(SHARES[2]), one
    )  # fmt: skip
    return replace(proof, memories=about.memories)


def _keeps_order(result: Result) -> bool:
    """Return whether the problem keeps first computations in the input order, and the schedule does."""
    instance, form = result.instance, result.formulation
    if instance.free_order or (form is not None and not form.staged):
        return False
    return result.answer is None or result.problem.order_of(result.answer) == instance.order


def check_budget(budget: int) -> None:
    """Refuse a budget that no certificate is for.

    Raises:
        InputError: it is negative.
    """
    if budget < 0:
        raise InputError(f"a certificate is for a budget of 0 or more, not {budget}")


def trusted(result: Result) -> tuple[Trust, ...]:
    """Return the claims of the search that rest on its solvers: each bound with the search that it came from."""
    form, source = result.formulation, result.bound_source
    if not isinstance(form, Formulation) or result.status == "over-budget" or not source:
        return ()
    racer, _, search = source.rpartition(", ")
    called = BY_CP_SAT.get(search)
    by = source if called is None else ", ".join(filter(None, (racer, CP_SAT, called)))
    bound = None if result.status == "infeasible" else result.bound
    return (Trust(by, scope(result.instance, form, source).rstrip(","), bound),)


def _interruptible(work: Callable[[Callable[[], bool]], Made]) -> Made:
    """Return the result of work whose function `stopped` returns true from Ctrl-C on."""
    stop = threading.Event()
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(work, stop.is_set)
        while True:
            try:
                return future.result()
            except KeyboardInterrupt:
                stop.set()
