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
from typing import Any, BinaryIO

from moccasin_mzn.solvers.cpsat.builder import LIMIT
from moccasin_mzn.solvers.cpsat.wide_sums import keep_true

INFINITE = 2**53
"""Solutions beyond it are none of a solver in doubles. A proof is only one for bounded columns."""


def main() -> None:
    """Answer requests up to the end of stdin."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # whoever asks has got it too, and decides
    requests: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(sys.stdin.buffer, requests), daemon=True).start()
    while True:
        print(json.dumps({"status": _answer(requests.get())}), flush=True)


def _listen(source: BinaryIO, requests: queue.SimpleQueue[dict[str, Any]]) -> None:
    try:
        while True:
            requests.put(pickle.load(source))
    finally:
        os._exit(0)


def _answer(request: dict[str, Any]) -> str:
    """Search for solutions with an objective that is better than `cutoff`, and print them."""
    from ortools.sat.python import cp_model

    class Improvement(cp_model.CpSolverSolutionCallback):
        def on_solution_callback(self) -> None:
            values = list(self.response_proto.solution)
            print(json.dumps({"values": values}), flush=True)

    model, bounded = _model(request)
    if model is None or model.validate():
        return "unknown"
    solver = cp_model.CpSolver()
    parameters = solver.parameters
    parameters.linearization_level = 2
    parameters.num_workers = request["threads"] or os.cpu_count() or 1
    parameters.random_seed = request["seed"] or 0
    keep_true(parameters, _widest(request["program"]))
    if request["seconds"] is not None:
        parameters.max_time_in_seconds = request["seconds"]
    status = solver.solve(model, Improvement())
    proven = {cp_model.OPTIMAL: "optimal", cp_model.INFEASIBLE: "infeasible"} if bounded else {}
    return proven.get(status, "unknown")


def _widest(program: dict[str, Any]) -> int:
    """The largest sum of coefficients' magnitudes in a row, or of the objective's."""
    start, coefficient = program["row_start"], program["row_coefficient"]
    rows = [coefficient[first:end] for first, end in zip(start, start[1:], strict=False)]
    return max(int(sum(map(abs, row))) for row in (*rows, program["objective"]))


def _model(request: dict[str, Any]) -> tuple[Any, bool]:
    """The program for CP-SAT, None if a number is beyond it; and whether all columns are bounded."""
    from ortools.sat.python import cp_model

    program = request["program"]
    model = cp_model.CpModel()
    proto, bounded = model.proto, True
    for low, high in zip(program["lower"], program["upper"], strict=True):
        bounded &= abs(low) <= INFINITE and abs(high) <= INFINITE
        proto.variables.add().domain.extend([int(max(low, -INFINITE)), int(min(high, INFINITE))])
    start, column, coefficient = (program[name] for name in ("row_start", "row_column", "row_coefficient"))
    rows = zip(start, start[1:], program["row_lower"], program["row_upper"], strict=False)
    for first, end, low, high in rows:
        _add_row(proto, column[first:end], coefficient[first:end], low, high)
    costs = [(at, int(cost)) for at, cost in enumerate(program["objective"]) if cost]
    if costs:
        columns, factors = zip(*costs, strict=True)
        sign = -1 if program["maximize"] else 1
        proto.objective.vars.extend(columns)
        proto.objective.coeffs.extend([sign * factor for factor in factors])
        cutoff = request["cutoff"]
        if cutoff is not None:
            limit = sign * (cutoff - int(program["objective_offset"])) - 1
            _add_row(proto, columns, [sign * factor for factor in factors], -LIMIT, limit)
    return model, bounded


def _add_row(proto: Any, columns: Any, coefficients: Any, low: float, high: float) -> None:
    linear = proto.constraints.add().linear
    linear.vars.extend(columns)
    linear.coeffs.extend(int(coefficient) for coefficient in coefficients)
    linear.domain.extend([int(max(low, -LIMIT)), int(min(high, LIMIT))])


if __name__ == "__main__":
    main()
