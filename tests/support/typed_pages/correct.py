"""A page of a user's code that uses all of the public interface, in which a strict type checker finds nothing."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

import moccasin_mzn as mz
from moccasin_mzn.pytorch import NoPlanError, Plan, PlanError, RegionPlan, Verification, backend, knapsack, plan


def graphs() -> list[mz.ComputationGraph]:
    names = ["x", "a", "z"]
    by_hand = mz.ComputationGraph(names, [5, 1, 1], [2, 1, 7], [("x", "a"), ("a", 2)], order=names, name="mine")
    arrays = mz.ComputationGraph(
        nodes=range(3), durations=np.ones(3, np.int64), sizes=np.array([2, 1, 7]), edges=np.array([[0, 1], [1, 2]]),
        backward=[False, False, True], fixed_memory={"parameters": 3}, computed_once=["a"], workspaces=(0, 1, 0),
        labels=names, in_place=[[], [0], []], device_durations={"gpu": [1, None, 2]}, attributes={"made_by": "me"},
    )  # fmt: skip
    mz.write_graph(by_hand, Path("graph.json"))
    mz.write_graph(arrays, "other.json")
    position: int = by_hand.position_of("a")
    positions: tuple[int, ...] = by_hand.positions_of(["a", 2])
    print(position, positions, by_hand.largest_working_set().memory, mz.__version__)
    return [mz.read_graph("graph.json"), mz.ComputationGraph.from_networkx(by_hand.to_networkx()), by_hand, arrays]


def solve(graph: mz.ComputationGraph, start: mz.Result | None = None) -> mz.Result:
    mz.solve("graph.json", "1.5GiB", order="free", addresses=True, alignment=64, in_place=True, count_fixed=True)
    mz.solve(graph, 0.8, zero_copy_concat=True)
    mz.solve(Path("graph.json"), mz.Budget(fraction=0.8), order=Path("order.txt"), strategy="dtr")
    mz.solve(graph, np.float64(0.8), order=["x", "a", "z"], warm_start=["x", "a", "z"], max_computations=[1, 2, 2])
    mz.solve(graph, 0.8, paging={"out_time": 0.25}, slow_memory="4GiB", goal="energy")
    mz.solve(graph, Fraction(4, 5), paging=mz.PagingCosts(0.25, Fraction(1, 4)), goal=mz.Goal("traffic", 100))
    mz.solve(graph, devices={"gpu": 0.8, "cpu": "64GiB:4", "tpu": mz.Device("1GiB", 2), "any": None},
             copies=mz.CopyCosts(time=0.5, latency=20))  # fmt: skip
    mz.solve(graph, memories={"fast": "128KiB", "slow": "8MiB:4", "psram": mz.MemoryPool("1GiB", 0.5), "any": None})
    return mz.solve(
        graph, 0.8, formulation="staged", solver="cp-sat,highs", search="on", time_limit=60, until_gap="1%", threads=2,
        seed=1, two_phase=True, if_none="hint", warm_start=start, on_progress=print, precedence="reservoir",
        redundant="cover,order", presolve="off",
    )  # fmt: skip


class Soon:
    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def __call__(self, state: mz.stop.State) -> bool:
        return state.value is not None and state.seconds > self.seconds


def settled(state: mz.stop.State) -> bool:
    return mz.stop.Gap(0.1)(state) or (state.unimproved or 0.0) > state.bound


def stop(graph: mz.ComputationGraph) -> None:
    own: list[mz.stop.Criterion] = [Soon(3), settled, mz.stop.NoImprovement(2)]
    mz.solve(graph, 0.8, stop=settled)
    mz.solve(graph, 0.8, stop=[*own, mz.stop.TimeLimit(9), mz.stop.Iterations(5), threading.Event()])
    mz.order(graph, stop=lambda state: state.gap is not None and state.gap < 0.2)


def judge(graph: mz.ComputationGraph) -> mz.JudgedSchedule:
    judged = mz.validate(graph, ["x", "a", "z"], 0.8, order=graph.order or "input", count_fixed=True, in_place=True)
    mz.validate("graph.json", Path("schedule.json"))
    mz.validate(graph, {"sequence": ["x", "a", "z"]}, "1GiB")
    violations: tuple[mz.Violation, ...] = judged.violations
    print(judged.valid, judged.peak, judged.duration, [(one.kind, one.position, one.message) for one in violations])
    read = mz.read_result(graph, "schedule.json")
    read.save("again.json")
    read.plot("schedule.svg")
    solve(graph).save("schedule.json")
    mz.solve(graph, 0.8, warm_start=read)
    print([one.start for one in read.intervals or ()], read.offsets, read.sequence, read.budgets)
    return read


def look(result: mz.Result) -> float:
    if result.status is mz.Status.OPTIMAL or result.status is mz.Status.FEASIBLE:
        result.save("schedule.json")
    print(result.status == "optimal", result.status.upper())
    for interval in result.intervals or ():
        one: mz.Interval = interval
        print(one.node, one.memory, one.end - one.start, one.offset, one.size, one.label, one.reads)
    for incumbent in result.trace:
        best: mz.Incumbent = incumbent
        print(best.seconds, best.value - best.bound, best.found_by, best.schedule, best.plan)
    sequence: Sequence[int | str] | None = result.sequence
    drawing = result.plot(by="stage")
    result.plot("schedule.html")
    print(sequence, result.positions, result.plan, result.peak, result.peaks, result.budget, result.budgets, drawing)
    print(result.arena, result.arenas, result.offsets, result.notes, result.as_dict(), result.reason, result.valid)
    print(result.value, result.objective, result.recomputations, result.found_by, result.proved_by)
    print(result.interrupted, result.ended_by)
    print(len(result.to_frame()), result.records(), result.figures(), result.tdi_percent, result.gap_percent)
    return result.seconds + (result.duration or 0) + result.bound


def drive(graph: mz.ComputationGraph) -> mz.Proven:
    event, heard = threading.Event(), list[mz.Progress]()

    def listen(progress: mz.Progress) -> bool:
        heard.append(progress)
        print(progress.seconds, progress.value, progress.bound, progress.gap, progress.peak, progress.source)
        print(progress.nodes, progress.budget, progress.method)
        return len(heard) > 9

    mz.solve(graph, 0.8, stop=[mz.stop.Gap(0.01), mz.stop.NoImprovement(10), event], on_progress=listen)
    mz.frontier(graph, stop=mz.stop.TimeLimit(60), model="my.mzn", like="staged", on_progress=heard.append)
    mz.frontier(graph, memories={"fast": None, "slow": "8MiB:4", "psram": mz.MemoryPool("inf", 0.5)})
    mz.compare(graph, 0.8, model=["my.mzn", Path("other.mzn")], stop=event)
    try:
        mz.solve(graph, 0.8, stop=mz.stop.Iterations(1_000_000), certificate="proof.json", interrupts="raise")
    except mz.Interrupted as interrupted:
        print(interrupted.result.interrupted, interrupted.result.to_frame())
    return mz.check_certificate(graph, "proof.json")


def others(graph: mz.ComputationGraph) -> None:
    front: mz.FrontierResult = mz.frontier(graph, points=5, budgets=[0.8, "1GiB", 6], time_limit=60, search="only")
    points: tuple[mz.FrontierPoint, ...] = front.points
    print(points[0].budget, points[0].duration, front.least_peak, front.least_bound, front.peak, front.plot())
    order: mz.OrderResult = mz.order(graph, start=["x", "a", "z"], time_limit=None, seed=0)
    parts: mz.ComputationGraph = mz.tile(graph, rows=4, columns=16, layers=["conv*"])
    mz.solve(graph, "64KiB", tile="auto", time_limit=1)
    mz.solve(parts, 0.5, tile=(4, 16), time_limit=1)
    print(order.positions, order.sequence, order.peak, order.input_peak, order.bound, order.status.value)
    table: mz.ComparisonResult = mz.compare(graph, [0.8, "50%"], only=["chen-*"], threads=1, warm_start=True)
    print(table.records(), mz.compare(graph, 0.8).to_frame())
    buffers = [mz.Buffer("a", 0, 2, 3, gaps=(mz.Gap(0, 1),)), mz.Buffer("b", 1, 3, 2, alignment=2, hint=0)]
    arena: mz.AllocationResult = mz.allocate(buffers, alignment=2, capacity=9, begin_with=[0, 4])
    print(arena.offsets["a"], arena.size, arena.peak, arena.buffers, mz.allocate("buffers.csv").status)


def train(model: Any, inputs: tuple[Any, ...]) -> Verification | None:
    try:
        found: Plan = plan(
            model, inputs, budget="8GiB", time_limit=60, durations="measured", gradients="accumulated", search="only",
            until_gap=0.01, paging=True, order="input", workspaces="none",
        )  # fmt: skip
    except (NoPlanError, PlanError, mz.InputError) as error:
        print(error)
        return None
    print(found.status is mz.Status.OPTIMAL, backend(0.5, time_limit=3, if_none="stop"), knapsack(0.5))
    parts: RegionPlan = plan(model, inputs, budget=0.7, regions=("encoder",), differentiate="loss", stop=None)
    print(parts.predicted_peak, parts.regions["encoder"].recomputations, parts.outside, parts.report())
    return found.verify(inputs)
