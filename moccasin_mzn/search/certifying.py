"""The certificate of a result: its schedule, and what of its bound can be proven so that anyone can check it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from moccasin_mzn.bounds.certificates.document import make_certificate
from moccasin_mzn.clock import Deadline
from moccasin_mzn.formulations import Formulation
from moccasin_mzn.problem.judges.certificates import Trust
from moccasin_mzn.search.conclusion import scope
from moccasin_mzn.search.result import Result

SECONDS = 60.0
"""For the proof, if the search had no time limit."""
CP_SAT = "CP-SAT"


def certificate_of(result: Result, time_limit: float | None) -> dict[str, Any]:
    """The document of a result of one memory.

    Args:
        time_limit: seconds for the proof; None: `SECONDS`. Ctrl-C ends it before, with what is proven so far.
    """
    deadline = Deadline(SECONDS if time_limit is None else time_limit)
    instance, sequence = result.instance, result.sequence if result.simulation and result.simulation.feasible else None

    def make(stopped: Callable[[], bool]) -> dict[str, Any]:
        return make_certificate(
            instance.graph, instance.budget, sequence, lambda: stopped() or deadline.over(), trusted(result)
        )

    return _interruptible(make)


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
