"""A process of its own in which CP-SAT, whose arithmetic is exact, confirms what another solver claims, or refutes it.

Run as `python -m moccasin_mzn.solvers.linear.confirming`. Requests come as pickles on stdin; answers are lines of JSON:
one with "values" for every improving solution, then one with "status": "optimal", "infeasible" or "unknown". The end of
stdin ends the process at once, so that it does not outlive who asks.
"""

from __future__ import annotations

import json
import os
import pickle
import queue
import signal
import sys
import threading
from typing import BinaryIO

import numpy as np

from moccasin_mzn.solvers.cpsat.builder import (
    LIMIT,
    CpModelProto,
    Proto,
    SolutionCallback,
    Solver,
    Status,
    complaint,
    keep_true,
)
from moccasin_mzn.solvers.linear.program import LinearProgram

INFINITE = 2**53
"""Solutions beyond it are none of a solver in floating point. A proof is only one for bounded columns."""


Request = tuple[LinearProgram, float | None, tuple[float | None, int | None, int | None]]
"""What to solve, the objective to be better than, and seconds, threads and seed."""


def main() -> None:
    """Answer requests up to the end of stdin."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # whoever asks has got it too, and decides
    requests: queue.SimpleQueue[Request] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(sys.stdin.buffer, requests), daemon=True).start()
    while True:
        print(json.dumps({"status": _answer(*requests.get())}), flush=True)


def _listen(source: BinaryIO, requests: queue.SimpleQueue[Request]) -> None:
    try:
        while True:
            requests.put(pickle.load(source))
    finally:
        os._exit(0)


def _answer(program: LinearProgram, cutoff: float | None, limits: tuple[float | None, int | None, int | None]) -> str:
    """Search for solutions with an objective that is better than `cutoff`, and print them."""

    class Improvement(SolutionCallback):
        def OnSolutionCallback(self) -> None:  # noqa: N802  (CP-SAT's name)
            print(json.dumps({"values": list(self.Response().solution)}), flush=True)

    model = _model(program, cutoff)
    if complaint(model):
        return "unknown"
    seconds, threads, seed = limits
    solver = Solver()
    parameters = solver.parameters
    parameters.linearization_level = 2
    parameters.num_workers = threads or os.cpu_count() or 1
    parameters.random_seed = seed or 0
    keep_true(parameters, _widest(program))
    if seconds is not None:
        parameters.max_time_in_seconds = seconds
    status = solver.solve(model, Improvement())
    bounded = np.abs([program.lower, program.upper]).max(initial=0.0) <= INFINITE
    proven = {Status.OPTIMAL: "optimal", Status.INFEASIBLE: "infeasible"} if bounded else {}
    return proven.get(status, "unknown")


def _widest(program: LinearProgram) -> int:
    """The largest sum of coefficients' magnitudes in a row, or of the objective's."""
    rows = np.bincount(program.entry_row, np.abs(program.row_coefficient), program.rows)
    return int(rows.max(initial=np.abs(program.objective).sum()))


def _model(program: LinearProgram, cutoff: float | None) -> Proto:
    """The program for CP-SAT."""
    proto = CpModelProto()
    for low, high in zip(program.lower.tolist(), program.upper.tolist(), strict=True):
        proto.variables.add().domain.extend([int(max(low, -INFINITE)), int(min(high, INFINITE))])
    for row, (low, high) in enumerate(zip(program.row_lower.tolist(), program.row_upper.tolist(), strict=True)):
        entries = program.entries(row)
        _add_row(proto, program.row_column[entries], program.row_coefficient[entries], low, high)
    costly = np.flatnonzero(program.objective)
    if len(costly):
        sign = -1 if program.maximize else 1
        costs = sign * program.objective[costly]
        proto.objective.vars.extend(costly.tolist())
        proto.objective.coeffs.extend(map(int, costs.tolist()))
        if cutoff is not None:
            _add_row(proto, costly, costs, -LIMIT, sign * (cutoff - int(program.objective_offset)) - 1)
    return proto


def _add_row(proto: Proto, columns: np.ndarray, coefficients: np.ndarray, low: float, high: float) -> None:
    linear = proto.constraints.add().linear
    linear.vars.extend(columns.tolist())
    linear.coeffs.extend(map(int, coefficients.tolist()))
    linear.domain.extend([int(max(low, -LIMIT)), int(min(high, LIMIT))])


if __name__ == "__main__":
    main()
