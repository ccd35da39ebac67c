"""Each message that claims something of all schedules, plans or orders names which: its scope.

All texts of the package are looked through, f-strings with what they insert; docstrings are for those who read the
source. A claim names its scope if it inserts one (`scope`, `ranges`, `SCOPE`, ...), or says it in words.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest
from test_floors import FILES, tree_of

pytestmark = pytest.mark.xdist_group("floors")  # one worker reads all files

WHAT = r"(?:schedule|plan|order|arena|budget)s?"
CLAIM = re.compile(
    rf"\bno {WHAT} (?:(?:is|are|has|have|fits?|needs?|takes?|exists?|below|within|in|without)\b|{{}})"
    rf"|\bthe least that (?:any|no|every)\b|\bany {WHAT} needs\b|\bthere is (?:none\b|no {WHAT})"
    r"|\bproven (?:to|least|that)\b|\bis proven\b|\bproves that\b|\bhowever its inputs are\b|\balone needs\b"
)
INSERTED = re.compile(r"\{[^{}]*\b\w*(?:scope|ranges|SCOPE)\w*\b[^{}]*\}")
WORDS = (
    "in any order", "computes every node once", "with at most C computations per node", "of its kind",
    "than every node computed once", "no order without recomputation",
)  # fmt: skip
KNOWN = {
    # of all schedules, whatever the order
    ("", "alone needs {"): "inputs, output and workspace are there at once",
    ("", "however its inputs are "): "says so",
    ("report.schedules", "no budget is feasible below"): "the largest working set",
    ("bench.features", "largest working set, below which no budget is feasible"): "the same",
    # of what is given, not of all schedules
    ("report.schedules", "proven least"): "an arena, of the buffers of one schedule",
    ("cli.allocate", "no arena is below {bound:,}"): "of the buffers that are given",
    # errors: what was claimed is wrong, whatever its scope
    ("", " claims that "): "the name of whoever claims it is before it",
    ("bench.best_known", "it proves that there is no schedule, but the bound is"): "a table and a certificate differ",
    # the scope is in another part of the line, or of the picture
    (
        "pytorch.infeasibility",
        "no plan is within it",
    ): "a part of what ends with the scope, or one node alone needs more",
    ("report.answers", "there is no schedule within the budget: {self.reason}"): "the reason names it",
    ("report.answers", "there is no schedule: {self.reason}"): "the reason names it",
    ("report.schedules", "infeasible: no schedule fits the {budget}"): "`_claim`, whose line ends with it",
    ("report.schedules", "no schedule is shorter"): "the same",
    ("report.schedules", "no schedule within the {budget} is shorter than {bound}"): "the same",
    ("report.schedules", "optimal: no plan has less {proven.goal}"): "the same",
    ("report.schedules", "no plan has {proven.goal} below {bound}{gap}"): "the same",
    ("report.schedules", "infeasible: there is no plan"): "the same",
    ("report.schedules", "proven to be needed"): "a row under the reason, which names it; the next row is on any order",
    ("search.trials", "there is none, which is proven"): "the option that was tried is before it",
    ("report.answers", "{least}, proven that {proven}"): "inserts a claim that names it",
    ("report.plots.interactive_frontier", "no schedule below {"): "the picture's title has it",
    ("report.plots.frontier_picture", "no schedule below {"): "the next line of the title has it",
    ("pytorch.plans", "% or more is proven"): "the line begins with what it is of",
    # what is reported of experiments, each proof for the method's own formulation
    ("bench.", "there is no schedule"): "a status, or while there is none",
    ("graphs.importers.tflite_state", "no order is sure to keep this"): "a network that is refused",
    ("bench.report.", "proven that there is no schedule, each for the method's own"): "says so",
    ("bench.report.sections", "not proven to have no schedule"): "which instances are chosen",
    # something else
    ("", "if there is none"): "of options",
    ("bench.", "there is none"): "of lists, and of proofs",
    ("problem.validate", "begins where there is none"): "of an interval in a file",
    ("search.options", "until optimality is proven"): "help",
    ("search.apply_strategy", "{name} makes no schedule within the budget"): "a rule that makes none",
    ("search.options", "no schedule is found"): "a search that finds none",
    ("cli.run", "no budget is needed"): "an option",
    ("pytorch.", "no plan is installed"): "a state",
}
"""By module and a part of the text, why it needs no scope of its own."""


def text_of(part: ast.expr) -> str:
    if not isinstance(part, ast.FormattedValue):
        return str(getattr(part, "value", ""))
    form = f":{ast.unparse(part.format_spec)[2:-1]}" if part.format_spec else ""
    return f"{{{ast.unparse(part.value)}{form}}}"


def texts_of(tree: ast.Module) -> Iterator[str]:
    """The texts that may claim something, without docstrings; what is inserted as `{code}`."""
    skipped = set[int]()
    for node in ast.walk(tree):  # what is around something comes before it
        body = getattr(node, "body", None)
        skipped |= {id(one.value) for one in body if isinstance(one, ast.Expr)} if isinstance(body, list) else set()
        if isinstance(node, ast.JoinedStr):
            skipped |= {id(part) for part in node.values}
            plain = "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values)
            if CLAIM.search(plain):  # to write all code takes seconds
                yield "".join(map(text_of, node.values))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in skipped:
            yield node.value


def unscoped(text: str) -> bool:
    """Does a text claim something of all schedules without a scope?"""
    named = INSERTED.search(text) or any(words in text for words in WORDS)
    return not named and bool(CLAIM.search(re.sub(r"\{[^{}]*\}", "{}", text)))


def may_claim(source: str) -> bool:
    """Is there a claim in a file, be it in a docstring? To read the syntax of all files takes seconds."""
    joined = re.sub(r"[\"']\s*\n\s*f?[\"']", "", source)
    return bool(CLAIM.search(re.sub(r"\{[^{}]*\}", "{}", joined)))


@pytest.fixture(scope="module")
def claims() -> list[tuple[str, str]]:
    files = (module for module, path in FILES.items() if may_claim(path.read_text()))
    found = ((module, text) for module in files for text in texts_of(tree_of(module)))
    return [(module.partition(".")[2], text) for module, text in found if unscoped(text)]


def test_every_claim_names_its_scope(claims):
    unknown = [
        (module, text)
        for module, text in claims
        if not any(module.startswith(room) and part in text for room, part in KNOWN)
    ]
    assert unknown == []


def test_what_is_listed_is_there(claims):
    """What no text has any more is to be taken off the list."""
    unused = [
        (room, part)
        for room, part in KNOWN
        if not any(module.startswith(room) and part in text for module, text in claims)
    ]
    assert unused == []


@pytest.mark.parametrize(
    "text",
    [
        "budget: {amounts[0]}, the least that any schedule needs",
        "no schedule is shorter, and its arena is within the budget",
        "{self.proven} proves that no schedule has an arena within the budget",
        "proven: no schedule fits less than {amount(least)}",
        "{least}, proven that none is below {x}",
        "{amount} are proven to be needed",
        "no plan takes less",
        "there is no plan within {x}",
        "any order needs {x}",
    ],
)
def test_claims_without_a_scope_are_seen(text):
    assert unscoped(text)
    assert not unscoped(f"{text} in any order") and not unscoped(f"{text} {{scope(problem, form)}}")
