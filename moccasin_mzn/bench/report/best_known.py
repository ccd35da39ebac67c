"""What is best known of the problems of an experiment, beside what its methods found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from moccasin_mzn.bench.best_known import Known
from moccasin_mzn.bench.report.runs import Runs, option_of
from moccasin_mzn.bench.report.summary import Summary
from moccasin_mzn.problem.instance import FREE

_INPUT = "input"


@dataclass(frozen=True)
class BestKnown:
    """Lines of a table of best-known values, for problems of an experiment."""

    lines: Mapping[tuple[int, str], Known]
    """By position of the problem and order: that of the shortest schedule, whatever C is."""
    orders: Mapping[str, str]
    """Of first computations, by method."""

    @classmethod
    def of(cls, runs: Runs, known: Sequence[Known]) -> BestKnown:
        """Matched by the graph's digest and the budget's amount."""
        found: dict[tuple[int, str], Known] = {}
        columns = zip(runs.runs["problem"], runs.runs["graph_digest"], runs.runs["budget_amount"], strict=True)
        for problem, digest, amount in dict.fromkeys(columns):
            for row in known:
                if (row.digest, row.amount) == (digest, amount) and row.duration is not None:
                    other = found.get((problem, row.order))
                    if other is None or (other.duration or 0) > row.duration:
                        found[problem, row.order] = row
        commands = dict(zip(runs.runs["method"], runs.runs["command"], strict=True))
        orders = {method: FREE if option_of(text, "--order") == FREE else _INPUT for method, text in commands.items()}
        return cls(found, orders)

    def text(self, problem: int) -> str:
        """TDI in percent, with an asterisk if no schedule is shorter; that of a free order in brackets, if better."""
        own, free = (self.lines.get((problem, order)) for order in (_INPUT, FREE))
        texts = [f"{row.tdi_percent:.3f}{'*' * (row.status == 'optimal')}" if row else "" for row in (own, free)]
        if free is None or (own is not None and (own.duration or 0) <= (free.duration or 0)):
            return texts[0] or "-"
        return f"{texts[0]} ({texts[1]})".strip()

    def over(self, problem: int, method: str, summaries: Mapping[tuple[int, str], Summary]) -> str:
        """By how many percentage points the median of a method is over what is known in its order."""
        row = self.lines.get((problem, self.orders.get(method, _INPUT)))
        tdi = summaries[problem, method].tdi
        return "-" if row is None or row.tdi_percent is None or tdi is None else f"{tdi.median - row.tdi_percent:+.3f}"
