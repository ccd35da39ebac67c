"""`moccasin_mzn.solve` with the result as searches give it."""

from __future__ import annotations

from moccasin_mzn.api.question import Question
from moccasin_mzn.api.solve import answer


def solve(graph, budget, *, order="input", count_fixed=False, on_progress=None, **given):
    question = Question.of({"budget": budget, "order": order, "count_fixed": count_fixed, **given})
    return answer(question.request(graph), on_progress)
