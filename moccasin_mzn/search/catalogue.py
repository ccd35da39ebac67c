"""All ways to make a schedule, by name: what each is, where it comes from and what it guarantees."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Entry:
    """A formulation or a strategy in words."""

    kind: str
    """"formulation" or "strategy": the option that takes the name."""
    name: str
    title: str
    source: str
    """The publication and its section."""
    guarantee: str
    """What is known of its schedules."""


FORMULATIONS = (
    Entry(
        "formulation",
        "staged",
        "retention intervals in stages of the input order",
        "Bartan et al., ICML 2023, sections 2.1 to 2.4",
        "optimal among schedules in stages of the input order with at most C computations per node",
    ),
    Entry(
        "formulation",
        "general",
        "retention intervals, the order is open",
        "Bartan et al., ICML 2023, sections 2.1 and 2.2",
        "optimal among all schedules with at most C computations per node",
    ),
    Entry(
        "formulation",
        "checkmate-milp",
        "0-1 matrices R, S, FREE of nodes and stages",
        "Jain et al., MLSys 2020, section 4",
        "optimal among schedules in stages of the input order",
    ),
    Entry(
        "formulation",
        "checkmate-milp-strengthened",
        "the same with memory by outputs alive until their last use: a stronger relaxation",
        "this project, after Jain et al.",
        "optimal among schedules in stages of the input order",
    ),
)


def entries() -> tuple[Entry, ...]:
    """Formulations, then strategies."""
    from moccasin_mzn.strategies import strategies

    rules = (Entry("strategy", rule.name, rule.title, rule.source, rule.guarantee) for rule in strategies())
    return (*FORMULATIONS, *rules)
