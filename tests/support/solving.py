"""`moccasin_mzn.solve` with the result as searches give it."""

from __future__ import annotations

from moccasin_mzn.api.question import Question
from moccasin_mzn.api.solve import answer
from moccasin_mzn.search.call import Call
from moccasin_mzn.search.result import ignore


def solve(graph, budget, *, order="input", count_fixed=False, on_progress=ignore, **given):
    question = Question.of({"budget": budget, "order": order, "count_fixed": count_fixed, **given})
    call = Call(on_progress)
    return answer(question.request(graph), call)
