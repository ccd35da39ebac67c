"""The certificate of a result: its schedule, and what of its bound can be proven so that anyone can check it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from moccasin_mzn.bounds.certificates.document import certificate, prove
from moccasin_mzn.clock import Deadline
from moccasin_mzn.errors import InputError
from moccasin_mzn.formulations import Formulation
from moccasin_mzn.problem.judges.certificates import Trust
from moccasin_mzn.search.conclusion import scope
from moccasin_mzn.search.result import Result

SECONDS = 60.0
"""For the proof, if the search had no time limit."""
CP_SAT = "CP-SAT"


def certificate_of(result: Result, time_limit: float | None) -> dict[str, Any]:
    """The document of a result of one memory.

    It ranges over all orders, if such a bound meets the schedule or is as good as that for the input order.

    Args:
        time_limit: seconds for the proof; None: `SECONDS`. Ctrl-C ends it before, with what is proven so far.
    """
    deadline = Deadline(SECONDS if time_limit is None else time_limit)
    instance, sequence = result.instance, result.sequence if result.simulation and result.simulation.feasible else None
    check_budget(instance.budget)
    duration = None if sequence is None else result.duration

    def make(stopped: Callable[[], bool]) -> dict[str, Any]:
        share, order = (0.5, instance.order) if _keeps_order(result) else (1.0, None)
        proof = prove(instance.graph, instance.budget, duration, lambda: stopped() or deadline.over(share))
        if order is not None and proof.bound is not None and proof.bound != duration:
            other = prove(instance.graph, instance.budget, duration, lambda: stopped() or deadline.over(), order)
            proof = other if other.bound is None or other.bound > proof.bound else proof
        return certificate(proof, sequence, trusted(result))

    return _interruptible(make)


def _keeps_order(result: Result) -> bool:
    """Are its first computations in the input order, by what was asked?"""
    instance, form = result.instance, result.formulation
    if instance.free_order or (form is not None and not form.staged):
        return False
    return result.sequence is None or tuple(dict.fromkeys(result.sequence)) == instance.order


def check_budget(budget: int) -> None:
    """Refuse a budget that no certificate is for.

    Raises:
        InputError: it is negative.
    """
    if budget < 0:
        raise InputError(f"a certificate is for a budget of 0 or more, not {budget}")


def trusted(result: Result) -> tuple[Trust, ...]:
    """What the search says, on the word of its solvers."""
    form = result.formulation
    if not isinstance(form, Formulation) or result.status == "over-budget":
        return ()
    by = CP_SAT if result.solver in ("", "cp-sat") else f"{CP_SAT}, {result.solver}"
    bound = None if result.status == "infeasible" else result.bound
    return (Trust(by, scope(result.instance, form, result.proved_by).rstrip(","), bound),)


def _interruptible(work: Callable[[Callable[[], bool]], Any]) -> Any:
    """The result of work that is told when it is to stop: at Ctrl-C."""
    stop = threading.Event()
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(work, stop.is_set)
        while True:
            try:
                return future.result()
            except KeyboardInterrupt:
                stop.set()
