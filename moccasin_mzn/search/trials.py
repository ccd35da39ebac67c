"""Trials of what would help where no schedule is found: more computations of a node, then a free order as well.

The search of the problem as posed goes on alongside the trials. They have the last part of its time limit, or some
seconds after a proof that there is no schedule. The answer to another problem is never passed as one to that which was
posed: a schedule that computes nodes more often is the answer only with `if_none` "more", and its `reason` states that.
"""

from __future__ import annotations

import math
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Self

from moccasin_mzn.base.clock import POLL_SECONDS, never
from moccasin_mzn.base.formatting import memory_text
from moccasin_mzn.bounds.least_budget import enough_budget, least_budget_bound
from moccasin_mzn.bounds.on_demand import on_demand, with_any_computations
from moccasin_mzn.formulations import Formulation
from moccasin_mzn.problem.construction import judged
from moccasin_mzn.problem.instance import AUTO_COMPUTATIONS, FREE, Instance
from moccasin_mzn.search.board import Board
from moccasin_mzn.search.call import Call
from moccasin_mzn.search.conclusion import conclude
from moccasin_mzn.search.options import HINT, MORE, STOP, Options
from moccasin_mzn.search.result import (
    FOUND,
    NONE_FOUND,
    NONE_THERE,
    NOT_TRIED,
    Help,
    Progress,
    Result,
    Shortfall,
    Status,
    percent_over,
    shortfall,
)
from moccasin_mzn.search.runner import MOMENT, Runner
from moccasin_mzn.search.searchers import searchers
from moccasin_mzn.search.searchers.along import INPUT_ORDER
from moccasin_mzn.search.searchers.construction import CONSTRUCTION, constructed

ORDER_FREE = f"--order {FREE}"
SHARES = {MORE: 0.25, HINT: 0.1}
"""Shares of the time limit for the trials: its last part."""
PATIENCE, LONGEST = 60.0, 20.0
"""If there is no time limit: seconds without a schedule before the trials, and seconds of all of them."""
LONGEST_AFTER, LEAST_AFTER = 10.0, {MORE: 10.0, HINT: 1.0}
"""Seconds of all trials after a proof that there is no schedule: as many as that took, between these."""
CALM_SECONDS, CALM = 1.0, 2.0
"""An answer is improved after the search for these seconds, and this multiple of those to its latest improvement."""


@dataclass(frozen=True)
class Alternative:
    """Another problem than the one that was posed."""

    option: str
    """Option of the command line that poses it."""
    instance: Instance
    more: bool = False
    """True if only the number of computations allowed differs."""


@dataclass
class Trials:
    """Trials alongside a search, as a context: at its end no trial goes on."""

    record: Board
    """The board of the search."""
    options: Options
    stop: Callable[[], bool] = never
    """Function that ends search and trials by returning true."""
    helps: list[Help] = field(default_factory=list)
    answer: Runner | None = None
    """Runner of a trial that found a schedule with more computations, where that may be the answer."""
    errors: list[Exception] = field(default_factory=list)
    least_peak: int | None = None
    """Least peak of the sequences that trials have seen, in the graph's size unit."""
    deadline: float = math.inf
    """End of the trials, in seconds from the beginning of the record; infinite: they are not due."""
    _alone: bool = False
    """True if the search is over."""
    _stopping: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        if self.options.if_none != STOP and self.options.search != "off" and self.questions():
            self._thread = threading.Thread(target=self._guarded, name="trials", daemon=True)
            self._thread.start()
        return self

    def __exit__(self, *problem: object) -> None:
        self._end()

    def conclude(self, result: Result) -> Result:
        """The result of the search with what is known of its shortfall; or the schedule with more computations.

        Raises:
            Exception: whatever went wrong in a trial.
        """
        if result.found:
            return result
        interrupted = result.interrupted
        try:
            if not interrupted and not self.stop():
                self._finish(result.status)
        except KeyboardInterrupt:
            interrupted = True
        interrupted |= self._end()
        for error in self.errors:
            raise error
        seconds = replace(result.seconds, total=self.record.seconds)
        result = replace(result, interrupted=interrupted, seconds=seconds, shortfall=self.shortfall(result.status))
        return result if self.answer is None else self._with_more(result, self.answer)

    def shortfall(self, status: Status) -> Shortfall:
        """Return what is known of a search that ended without a schedule."""
        form = self.options.form
        return shortfall(
            self.record.instance, status, form.staged, self._least_peak(), self.record.floor,
            [*self._all_helps(), *self._untried(status)], self.options.time_limit,
        )  # fmt: skip

    def _least_peak(self) -> int | None:
        return min((peak for peak in (self.record.least_peak, self.least_peak) if peak is not None), default=None)

    def _end(self) -> bool:
        """Stop the trial that is under way; return whether there was an interrupt from the keyboard meanwhile."""
        self._stopping.set()
        interrupted = False
        while self._thread is not None and self._thread.is_alive():
            try:
                self._thread.join()
            except KeyboardInterrupt:
                interrupted = True
        return interrupted

    # The questions

    def questions(self) -> list[Alternative]:
        """Return the other problems, the most promising one first."""
        posed, form = self.record.instance, self.options.form
        open_order = posed.free_order or not form.staged
        given = replace(posed, free_order=open_order)
        more = given.with_more_computations() if form.limited else None
        count = "auto" if posed.one_for_all else f"FILE with {AUTO_COMPUTATIONS} where it allows 2 or more"
        found = [] if more is None else [Alternative(f"--max-computations {count}", more, more=True)]
        if form.limited and not open_order and not form.model:  # a model of one's own is for a given order
            both = f"{ORDER_FREE} --max-computations {count}"
            found.append(Alternative(ORDER_FREE if more is None else both, replace(more or given, free_order=True)))
        return found

    def _all_helps(self) -> list[Help]:
        """Return the trials made; if none found a schedule, the others as well."""
        budget = self.record.instance.budget
        if least_budget_bound(self.record.instance.graph, budget).memory > budget:
            return []
        if any(one.outcome == FOUND for one in self.helps):
            return list(self.helps)
        why = "--search off" if self.options.search == "off" else "no time was left for it"
        why = "--model" if self.options.form.model else why
        why = "--if-none stop" if self.options.if_none == STOP and self.options.search != "off" else why
        rest = self.questions()[len(self.helps) :]
        return [*self.helps, *(Help(question.option, NOT_TRIED, why) for question in rest)]

    def _untried(self, status: Status) -> list[Help]:
        """Return what takes more than this search has; nothing where there is an answer."""
        if self.answer is not None:
            return []
        instance, limit, found = self.record.instance, self.options.time_limit, []
        graph = instance.graph
        plain = graph.overwritable is None and not graph.has_workspaces
        if plain and graph.largest_working_set().memory <= instance.budget:
            found.append(Help("--paging --page-out-time X", NOT_TRIED, "X is what a unit of size takes to slow memory"))
        if status == "unknown" and limit is not None:
            twice = float(f"{2 * limit:.2g}")
            found.append(Help(f"--time-limit {twice:g}", NOT_TRIED, f"{limit:g} s were not enough"))
        return found

    # The trials

    def _guarded(self) -> None:
        try:
            while not self._due():
                if self._stopping.wait(POLL_SECONDS):
                    return
            self._try_all()
        except Exception as error:
            self.errors.append(error)

    def _due(self) -> bool:
        """Return whether it is time for the trials, and then set their deadline."""
        if self.deadline == math.inf and self.record.answer is None and not self.record.ended.is_set():
            limit, seconds = self.options.time_limit, self.record.seconds
            if limit is None and seconds > PATIENCE:
                self.deadline = seconds + LONGEST
            elif limit is not None and seconds > (1 - SHARES[self.options.if_none]) * limit:
                self.deadline = limit
        return self.deadline < math.inf

    def _finish(self, status: Status) -> None:
        """Finish, after the search, the trials that are under way, or those for which there is time."""
        if self._thread is None:
            return
        self._alone, seconds, limit = True, self.record.seconds, self.options.time_limit
        if status == "infeasible":
            after = min(LONGEST_AFTER, max(seconds, LEAST_AFTER[self.options.if_none]))
        else:  # the search gave up
            after = LONGEST if limit is None else SHARES[self.options.if_none] * limit
        self.deadline = seconds + after if limit is None else min(limit, seconds + after)
        self._thread.join()

    def _over(self) -> bool:
        return (
            self._stopping.is_set()
            or self.stop()
            or self.record.answer is not None
            or self.record.seconds > self.deadline
        )

    def _try_all(self) -> None:
        """Try one after the other, each with its share of the time that is left, until one finds a schedule."""
        questions = self.questions()
        for number, question in enumerate(questions):
            seconds = (self.deadline - self.record.seconds) / (len(questions) - number)
            if self._over():
                return
            self.helps.append(self._try(question, seconds))
            if self.helps[-1].outcome == FOUND:
                return

    def _try(self, question: Alternative, seconds: float) -> Help:
        """Search for a schedule; and for a better one till the deadline, if that is to be the answer."""
        begin, (option, instance, start) = self.record.seconds, _constructed(question, self.options.form)
        record = Board(instance, time.monotonic(), self.options.until_gap)
        to_be_taken = question.more and self.options.if_none == MORE

        def over() -> bool:
            if record.answer is None:
                return self._over() or record.seconds > seconds
            begun = record.found_by != CONSTRUCTION  # to improve
            calm = self._alone and begun and record.seconds > CALM_SECONDS + CALM * record.trace[-1].seconds
            return self._over() or not to_be_taken or calm

        options = replace(
            self.options, formulation="staged", own={}, search="only",
            solver=self.options.solvers[0], time_limit=max(MOMENT, self.deadline - begin if to_be_taken else seconds),
        )  # fmt: skip
        along = question.more or not instance.free_order  # else the search along the input order was the trial before

        def report(progress: Progress) -> None:
            if to_be_taken and progress.answer is not None:
                figures = {**progress.figures, "duration": None}
                reported = replace(
                    progress, seconds=self.record.seconds, phase="more", value=None, answer=None, figures=figures
                )
                self.record.news.put(reported)

        search = Runner(
            board=record, options=options, form=options.form, call=Call(report, over), searchers=searchers(),
            without=frozenset() if along else frozenset({INPUT_ORDER}),
        )  # fmt: skip
        if start is not None:
            record.offer(start, CONSTRUCTION)
        search.run()
        if to_be_taken:
            seen = () if record.answer else _seen_by_construction(instance)
            self.least_peak = min((p for p in (record.least_peak, *seen) if p is not None), default=None)
        spent = self.record.seconds - begin
        value = record.value
        if value is None or record.simulation is None or record.answer is None:
            none_there = bool(record.infeasible_source)
            detail = "there is none, which is proven" if none_there else f"none was found in {spent:.1f} s"
            return Help(option, NONE_THERE if none_there else NONE_FOUND, detail, spent)
        if to_be_taken:
            self.answer = search
        tdi = percent_over(value, instance.baseline.duration)
        if not question.more and self._allowed(record.answer):
            option = ORDER_FREE
        peak = record.simulation.peak
        detail = f"a schedule with TDI {tdi:.3f} %, peak {memory_text(peak, instance.graph.size_unit)}"
        detail += f", the best that {spent:.1f} s of search found"
        return Help(option, FOUND, detail, spent, peak, value, tdi, record.answer)

    def _allowed(self, sequence: tuple[int, ...]) -> bool:
        """Return whether no node is computed more often than the problem allows."""
        most = self.record.instance.max_computations
        return all(count <= most[v] for v, count in Counter(sequence).items())

    def _with_more(self, result: Result, search: Runner) -> Result:
        """Return the schedule that computes nodes more often, and what is known of the problem as it was posed."""
        record, counts, begin = search.board, result.instance.counts, self.record.begin
        limit = self.options.time_limit
        used_up = limit is not None and self.record.seconds >= limit
        most = max(record.instance.max_computations)
        more = f"that were given to it, --max-computations {most} gives it all the time"
        ending = "in the time that was left" if used_up else f"in the {record.seconds:.1f} s {more}"
        status, reason = conclude(record, search.form, ending)
        before = f"with at most {counts} computations per node " if isinstance(counts, int) else ""
        if result.status == "infeasible":
            before = ""
        return replace(
            result,
            problem=replace(record.instance, free_order=result.instance.free_order),
            status=status,
            reason=f"{before}{result.reason}; with at most {most} there is this one: {reason}",
            answer=record.answer,
            simulation=record.simulation,
            bound=record.bound,
            found_by=record.found_by,
            proved_by=record.proved_by(status),
            trace=tuple(replace(point, seconds=point.seconds + record.begin - begin) for point in record.trace),
        )


def _constructed(question: Alternative, form: Formulation) -> tuple[str, Instance, tuple[int, ...] | None]:
    """Return the option that poses a question, the instance, and a schedule by construction, None without one.

    Where that takes more computations than the question allows, and any number may be, it allows them.
    """
    instance = question.instance
    start = constructed(instance, form)
    if start is not None or AUTO_COMPUTATIONS not in instance.max_computations:
        return question.option, instance, start
    start = constructed(with_any_computations(instance), form)
    if start is None:
        return question.option, instance, None
    counts = Counter(start)
    rows = zip(instance.graph.operation_of, instance.max_computations, strict=True)
    most = tuple(max(count, counts[first]) for first, count in rows)
    option = question.option.replace("auto", f"{max(most)}").replace(f"with {AUTO_COMPUTATIONS}", f"with {max(most)}")
    return option, replace(instance, max_computations=most), start


def _seen_by_construction(instance: Instance) -> tuple[int, ...]:
    """Return the peak of what is constructed with any number of computations, where the budget is too small for it."""
    enough = replace(with_any_computations(instance), budget=enough_budget(instance.graph))
    sequence = on_demand(enough)
    return () if sequence is None else (judged(instance.graph, sequence, "construction").peak,)
