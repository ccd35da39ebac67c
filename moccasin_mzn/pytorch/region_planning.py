"""The search for plans of regions: what each may keep, and how they share one budget. ::

    submodules found -> operators measured -> schedules of each that keep less -> one for each, for the whole step

The choice is measured on a scratch copy of the step, and corrected until what is measured is within the budget.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from operator import le
from typing import TYPE_CHECKING

from moccasin_mzn.api.driving import Drive
from moccasin_mzn.api.solve import solve_instance
from moccasin_mzn.base.clock import Deadline
from moccasin_mzn.base.errors import InputError, shown
from moccasin_mzn.base.formatting import bytes_text, count_text, nearest
from moccasin_mzn.base.log import underway
from moccasin_mzn.base.vocabulary import Status
from moccasin_mzn.heuristics.compiled_searches import compiled_for, join
from moccasin_mzn.problem.budget import Budget
from moccasin_mzn.problem.instance import Instance
from moccasin_mzn.problem.judges.schedules import simulate
from moccasin_mzn.pytorch.call import Form, Step, Structure, argument_names, output_names
from moccasin_mzn.pytorch.devices import CPU, forked_python_state
from moccasin_mzn.pytorch.errors import NoPlanError, NothingToPlanError, PlanError
from moccasin_mzn.pytorch.gradients import RETURNED
from moccasin_mzn.pytorch.infeasibility import left
from moccasin_mzn.pytorch.joint import BUFFER, INPUT, PARAMETER, Differentiate, Placeholder, differentiated
from moccasin_mzn.pytorch.loops import has_plan
from moccasin_mzn.pytorch.measuring import allocator_peak
from moccasin_mzn.pytorch.operator_process import worker
from moccasin_mzn.pytorch.plans import Plan
from moccasin_mzn.pytorch.problem import Cut
from moccasin_mzn.pytorch.region_budget import Choice, MeasuredRegions, chosen_within, measured, rooms
from moccasin_mzn.pytorch.region_search import Region, find_regions
from moccasin_mzn.pytorch.regions import RegionPlan, named, places_of
from moccasin_mzn.pytorch.steps import Copies, NoTurnsError, ScratchCopy, eager_and_ratio, scratch_of
from moccasin_mzn.pytorch.tracing import Costs, Traced, without_memory
from moccasin_mzn.search.call import Call
from moccasin_mzn.search.options import STOP, Options

if TYPE_CHECKING:
    import torch
    from torch.utils._pytree import PyTree

AUTO = "auto"
"""The regions that are found by themselves, anywhere in the network."""
Regions = str | Sequence[str]
"""`AUTO`, or names of submodules in which the regions are sought."""
_KEPT = 0.0, 0.5, 0.25, 0.75, 0.1
"""What a region may keep besides its outputs, as fractions of what it keeps without recomputation; in this order."""
_PEAKS = 0.85, 0.7, 0.55
"""What a region may take at its peak, as fractions of that without recomputation, where there is no room for that."""
_TIMED = 10.0
"""Seconds for steps that are timed."""
_SHORTEST, _TRACING_SHARE, _SEARCH_SHARE = 0.2, 0.5, 0.8
"""Seconds of a search; fractions of what is left in which regions are traced, and plans for them sought."""
_MORE = 110
"""Percent of its peak without recomputation that a region may take, if it keeps less for that."""
_NAMED = 3
"""This many of the submodules that run as they are get named in a message."""
_ROUNDS = 8
"""This many times the choice is measured and corrected."""


@dataclass(eq=False)
class _Rounds:
    """What is known of a step and its regions."""

    step: Step
    copies: Copies
    device: str
    regions: Sequence[Region]
    choices: list[list[Choice]]
    seen: list[MeasuredRegions] = field(default_factory=list)

    def run(self, chosen: Sequence[Choice]) -> MeasuredRegions:
        """Measure the step with a choice for each region."""
        plans = [(each.name, each.traced, choice.sequence) for each, choice in zip(self.regions, chosen, strict=True)]
        places = places_of(plans)

        def step(functions: Sequence[Callable[..., PyTree]]) -> None:
            own: dict[int, list[Callable[..., PyTree]]] = {}
            for each, function in zip(self.regions, functions, strict=True):
                own.setdefault(id(each.traced.step.model), []).append(function)
            for place in places:
                place.install(own[id(place.module)])
            try:
                copy.step(self.step)
            finally:
                for place in places:
                    place.remove()

        waiting = {id(place.module): iter(place.runtimes) for place in places}
        runtimes = [next(waiting[id(each.traced.step.model)]) for each in self.regions]
        with self.copies() as copy:
            found = measured(chosen, runtimes, step, self.device)
        self.seen.append(found)
        return found

    def increase(self, chosen: Sequence[Choice]) -> int:
        """What choices recompute in a step, in the unit of durations."""
        pairs = zip(self.regions, chosen, self.choices, strict=True)
        return sum(region.calls * (choice.duration - some[0].duration) for region, choice, some in pairs)

    def within(self, now: MeasuredRegions, budget: int, deadline: Deadline) -> MeasuredRegions | None:
        """The step of least time that is found and measured to be within a budget; None: none was found.

        Args:
            now: as it was measured first.
            deadline: no step is run after it.
        """
        target, least = budget, False
        for _ in range(_ROUNDS):
            chosen = chosen_within(now, self.choices, target)
            if chosen is None and not least and not any(each.peak <= budget for each in self.seen):
                chosen, least = chosen_within(now, self.choices, None), True
            if chosen is None or deadline.over():
                break
            known = next((each for each in self.seen if each.chosen == chosen), None)
            if known is None:
                now = self.run(chosen)
            elif known.peak <= budget:
                break
            else:
                target -= known.peak - budget
        fitting = [each for each in self.seen if each.peak <= budget]
        return min(fitting, key=lambda each: self.increase(each.chosen), default=None)

    def why_none(self, budget: int, eager: int, outside: Mapping[str, str]) -> str:
        """That no plans were found within a budget, the least that was seen, and what takes it."""
        least = min(self.seen, key=lambda each: each.peak)
        worst = max(range(len(least.peaks)), key=lambda section: least.peaks[section])
        where = "outside of the regions"
        for call in least.calls:
            if worst in (call.forward, call.backward):
                part = "forward" if worst == call.forward else "backward"
                where = f"in the {part} pass of {named(self.regions[call.region].name)}"
        share = 100 * least.peak / eager if eager else 100.0
        some = "; ".join(f"{named(name)}: {why}" for name, why in [*outside.items()][:_NAMED])
        return (
            f"budget {bytes_text(budget)}: no plans of {count_text(len(self.regions), 'region')} were found, the least "
            f"takes {bytes_text(least.peak)}, {share:.1f} % of the step without plans, most of it {where}"
            + (f"; as they are run {some}" if some else "")
        )  # fmt: skip


@dataclass(frozen=True)
class RegionEffort:
    """How plans of regions are measured and searched."""

    costs: Costs
    options: Options
    most: int
    """How often anything may be computed."""
    drive: Drive
    deadline: Deadline


def plan_regions(
    step: Step, inputs: Sequence[PyTree], kwargs: Mapping[str, PyTree], *, differentiate: Differentiate,
    budget: Budget, regions: Regions, gradients: str, effort: RegionEffort,
) -> RegionPlan:  # fmt: skip
    """Plans for the parts of a step that can be traced, which keep it within a budget together; see `planning.plan`.

    Raises:
        NoPlanError: no such plans were found.
        PlanError: no submodule can be planned.
        InputError: `regions` has no submodules of the network.
    """
    within, drive, deadline = _names(step.model, regions), effort.drive, effort.deadline
    tensors = Structure.of_call(inputs, kwargs)[1]
    if without_memory(step.model, [Form.of(tensor) for tensor in tensors]):
        raise PlanError("regions are found by running the network, and nothing can be run on the meta device")
    if has_plan(step.model):
        raise PlanError("the network has a plan already: remove it first")
    worker().begin()
    asked = partial(_copies, step, _differentiable(step, inputs, kwargs, differentiate), gradients)
    copies, device = asked(inputs, kwargs), _device(step.model, tensors)
    with underway("running the step as it is, for the memory that it takes"), copies() as copy:
        eager = allocator_peak(partial(copy.step, step), device)
    amount = budget.resolve(eager)
    drive.begins("looking for parts of the network that can be planned", deadline.begin)
    with underway(drive.doing):
        found = find_regions(step, copies, within, gradients, deadline.part(_TRACING_SHARE))
    drive.begins("measuring operators of the regions", deadline.begin)
    costs = effort.costs.within(deadline)
    with underway(drive.doing):
        own = [replace(each, traced=each.traced.measured(costs)) for each in found.regions]
    drive.begins("searching for plans of the regions", deadline.begin)
    search = _Rounds(step, copies, device, own, [[_without(each.traced)] for each in own])
    first = search.run([some[0] for some in search.choices])
    if first.peak > amount:
        room = rooms(first, amount)
        limited = replace(effort, deadline=deadline.part(_SEARCH_SHARE))
        search.choices = _all_choices([each.traced for each in own], first.chosen, room, limited)
    best = search.within(first, amount, deadline)
    if best is None:
        raise NoPlanError(search.why_none(amount, eager, found.outside))
    left = deadline.remaining()
    increase, overhead = _increase(search, best, Deadline(_TIMED if left is None else min(_TIMED, left)))
    plans = _plans(search, best)
    return RegionPlan(step, plans, found.outside, amount, best.peak, increase, eager, overhead, device, asked)


def _names(model: torch.nn.Module, regions: Regions) -> tuple[str, ...]:
    """Names of the submodules that regions are sought in; "": in all of the network."""
    if regions == AUTO:
        return ("",)
    names = (regions,) if isinstance(regions, str) else tuple(regions)
    known = [name for name, _ in model.named_modules() if name]
    for name in names:
        if name not in known:
            text = f"regions: the network has no submodule {shown(name)}"
            raise InputError(text + (nearest(name, [AUTO, *known]) or f", expected {AUTO} or names of submodules"))
    if not names:
        raise InputError(f"regions: no names, expected {AUTO} or names of submodules")
    return names


def _device(model: torch.nn.Module, tensors: Sequence[torch.Tensor]) -> str:
    return next((str(each.device) for each in (*model.parameters(), *tensors)), CPU)


def _differentiable(
    step: Step, inputs: Sequence[PyTree], kwargs: Mapping[str, PyTree], differentiate: Differentiate
) -> tuple[bool, ...]:
    """For each output of a step: does it get a gradient?"""
    with _copies(step, (), RETURNED, inputs, kwargs)() as copy:
        returned = step(*copy.arguments[0], **copy.arguments[1])
        found = differentiated(Structure.of(returned)[1], output_names(returned), differentiate)
    if not any(found):
        raise NothingToPlanError("no output depends on what requires a gradient: there is no backward pass to plan")
    return found


def _copies(
    step: Step, differentiable: Sequence[bool], gradients: str, inputs: Sequence[PyTree],
    kwargs: Mapping[str, PyTree],
) -> Copies:  # fmt: skip
    """What makes scratch copies of a step that is not traced; also Python's random numbers are the same in each."""
    model = step.model
    tensors = Structure.of_call(inputs, kwargs)[1]
    named = [
        *((name, PARAMETER, each) for name, each in model.named_parameters()),
        *((name, BUFFER, each) for name, each in model.named_buffers()),
        *((name, INPUT, each) for name, each in zip(argument_names(inputs, kwargs), tensors, strict=True)),
    ]
    given = [Placeholder(name, kind, Form.of(each)) for name, kind, each in named]

    @contextlib.contextmanager
    def copy() -> Iterator[ScratchCopy]:
        with forked_python_state(), scratch_of(model, given, differentiable, gradients, inputs, kwargs) as made:
            yield made

    return copy


def _all_choices(
    steps: Sequence[Traced], without: Sequence[Choice], room: Sequence[tuple[int, int]], effort: RegionEffort
) -> list[list[Choice]]:  # fmt: skip
    """Schedules of each region, that without recomputation first; regions with the same graph share the search.

    Args:
        without: those without recomputation.
        room: what is left to each, see `rooms`.
        effort: no search is begun after its deadline.
    """
    drive, deadline = effort.drive, effort.deadline
    classes: dict[object, list[int]] = {}
    for at, traced in enumerate(steps):
        graph = traced.problem.graph
        key = len(graph.nodes), graph.edges, graph.sizes, graph.durations, graph.workspaces, traced.problem.most
        classes.setdefault(key, []).append(at)
    join(lambda: drive.over() or deadline.over(), lambda: left(deadline), *compiled_for(False))
    limit = deadline.remaining()
    seconds = None if limit is None else max(_SHORTEST, limit / (len(classes) * len(_KEPT)))
    options = replace(effort.options, time_limit=seconds, if_none=STOP)
    found: dict[int, list[Choice]] = {}
    for same in sorted(classes.values(), key=lambda some: -sum(without[at].peaks.kept for at in some)):
        within = min(room[at][0] for at in same), max(room[at][1] for at in same)
        tried: list[tuple[int, ...]] = []
        for instance in _questions(steps[same[0]], without[same[0]], within, effort.most):
            if drive.over() or deadline.over():
                break
            result = solve_instance(instance, options, Call(stop=drive.over))
            tried += [] if result.answer is None else [tuple(result.answer)]
            if result.interrupted:
                break
        for at in same:
            found[at] = _useful([without[at], *(Choice.of(steps[at], sequence) for sequence in tried)])
    return [found[at] for at in range(len(steps))]


def _questions(traced: Traced, without: Choice, room: tuple[int, int], most: int) -> Iterator[Instance]:
    """What to ask of a region: schedules that keep ever less for the backward pass, or take ever less.

    The cut between the passes gets a workspace: what is kept has to leave room for it.
    """
    graph = traced.problem.graph
    top = simulate(graph, without.sequence).peak
    cut = next(at for at, each in enumerate(traced.problem.meanings) if isinstance(each, Cut))
    counts, hidden = traced.problem.counts(most), without.peaks.whole - top
    budget = _MORE * top // 100
    for fraction in _KEPT:
        workspaces = list(graph.workspaces or (0,) * len(graph.nodes))
        workspaces[cut] = max(0, budget - (without.peaks.kept - without.kept) - int(fraction * without.kept))
        yield Instance.build(replace(graph, workspaces=tuple(workspaces)), budget, max_computations=counts)
    left = [each - hidden for each in room] + [int(fraction * top) for fraction in _PEAKS if room[1] - hidden < top]
    for each in sorted(set(left), reverse=True):
        if 0 < each < top:
            yield Instance.build(graph, each, max_computations=counts)


def _without(traced: Traced) -> Choice:
    """Nothing is recomputed."""
    return Choice.of(traced, traced.problem.graph.input_order())


def _useful(choices: Sequence[Choice]) -> list[Choice]:
    """The choices that no other one is as good as in all respects, after the first one."""

    def figures(each: Choice) -> tuple[int, ...]:
        return each.duration, each.kept, each.peaks.forward, each.peaks.backward

    kept = {figures(each): each for each in reversed(choices)}
    good = [
        each for own, each in kept.items()
        if not any(its != own and all(map(le, its, own)) for its in kept)
    ]  # fmt: skip
    return [choices[0], *(each for each in good if each is not choices[0])]


def _increase(search: _Rounds, best: MeasuredRegions, deadline: Deadline) -> tuple[float, float]:
    """Increase of the step's time, and what of it the plans' code takes without recomputing anything."""
    pairs = list(zip(search.regions, search.choices, strict=True))
    again, timed = search.increase(best.chosen), search.regions[0].traced.problem.graph.duration_unit == "ns"
    if not timed:
        whole = sum(each.calls * some[0].duration for each, some in pairs)
        return again / whole if whole else 0.0, 0.0
    places = places_of([(each.name, each.traced, some[0].sequence) for each, some in pairs])

    def planned(*args: PyTree, **kwargs: PyTree) -> PyTree:
        with contextlib.ExitStack() as stack:
            for place in places:
                place.install(place.runtimes)
                stack.callback(place.remove)
            return search.step(*args, **kwargs)

    try:
        nanoseconds, overhead = eager_and_ratio(search.copies, search.step, planned, search.device, deadline)
    except NoTurnsError:
        nanoseconds, overhead = sum(each.calls * some[0].duration for each, some in pairs), 0.0
    return overhead + again / max(1, nanoseconds), overhead


def _plans(search: _Rounds, best: MeasuredRegions) -> dict[str, Plan]:
    """The plan of each region, by name."""
    found: dict[str, Plan] = {}
    for region, choice, some in zip(search.regions, best.chosen, search.choices, strict=True):
        least = some[0].duration
        increase = (choice.duration - least) / least if least else 0.0
        name, number = region.name, 2
        while name in found:
            name, number = f"{region.name} ({number})", number + 1
        found[name] = Plan(
            region.traced,
            choice.sequence,
            choice.peaks,
            some[0].peaks,
            choice.peaks.whole,
            Status.FEASIBLE,
            increase,
            0.0,
        )
    return found
