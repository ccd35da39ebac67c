"""A page of a user's code with mistakes: each line that has one names the code of the error that is expected."""

from __future__ import annotations

from typing import Any

import moccasin_mzn as mz
from moccasin_mzn.pytorch import backend, plan

graph = mz.ComputationGraph(["a", "b"], [1, 1], [2, 2], [("a", "b")])
mz.ComputationGraph(["a", "b"], 1, [2, 2], [("a", "b")])  # arg-type
mz.ComputationGraph(["a", "b"], [1, 1], [2, 2], [(0.5, 1)])  # list-item
mz.ComputationGraph(["a"], [1], [2], [], nam="one")  # call-arg
mz.solv(graph, 0.8)  # attr-defined
mz.solve(graph, 0.8, search="offf")  # arg-type
mz.solve(graph, 0.8, formulation="stagd")  # arg-type
mz.solve(graph, 0.8, strategy="dtrr")  # arg-type
mz.solve(graph, 0.8, if_none="never")  # arg-type
mz.solve(graph, 0.8, paging={}, goal="speed")  # arg-type
mz.solve(graph, 0.8, time_limi=3)  # call-arg
mz.solve(graph, 0.8, precedence="served_by")  # arg-type
mz.solve(graph, 0.8, time_limit="60")  # arg-type
mz.solve(graph, 0.8, stop=60)  # arg-type
mz.solve(graph, 0.8, stop=mz.stop.Gap)  # arg-type
mz.solve(graph, 0.8, stop=len)  # arg-type
mz.solve(graph, 0.8, interrupts="drop")  # arg-type
mz.stop.Gaps(0.1)  # attr-defined
mz.solve(graph, [0.8])  # arg-type
mz.frontier(graph, search="none")  # arg-type
mz.frontier(graph, budgets=0.8)  # arg-type
mz.order(graph, 5)  # call-arg, arg-type
mz.compare(graph)  # call-arg
mz.allocate([1, 2])  # list-item
mz.Goal("speed")  # arg-type
result = mz.solve(graph, 0.8)
print(result.stauts)  # attr-defined
result.plot(by="hour")  # arg-type
result.save()  # call-arg
print(result.status is mz.Status.OPTIMUM)  # attr-defined
print(result.peak + 1)  # operator
print(result.intervals[0].node)  # index
print(result.trace[0].schedul)  # attr-defined


def train(model: Any) -> None:
    plan(model, (), budget=0.5, durations="flops")  # call-overload
    plan(model, (), budget=0.5, gradients="kept")  # call-overload
    plan(model, (), budgt=0.5)  # call-overload
    plan(model, (), budget=0.5, serch="only")  # call-overload
    backend(0.5, search="offf")  # arg-type
