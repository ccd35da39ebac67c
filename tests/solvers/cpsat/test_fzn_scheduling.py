"""Scheduling constraints and diffn against direct enumeration in Python, on random small instances."""

from __future__ import annotations

import itertools

import pytest
from few import examples
from fzn_support import check_against, domain, flatzinc, solutions
from hypothesis import example, given, settings
from hypothesis import strategies as st

EXAMPLES = settings(max_examples=examples(120), deadline=None)

int_operand = st.one_of(
    st.integers(-1, 3).map(str),
    st.tuples(st.integers(-2, 2), st.integers(0, 2)).map(lambda pair: f"{pair[0]}..{pair[0] + pair[1]}"),
    st.sets(st.integers(-2, 3), min_size=1, max_size=3).map(lambda values: "{" + ",".join(map(str, values)) + "}"),
)
natural = st.one_of(st.integers(0, 2).map(str), st.sampled_from(["0..1", "1..2", "0..2", "{0,2}"]))
literal = st.sampled_from(["bool", "bool", "true", "false"])


class Declarations(dict):
    """Collects the variables of a random instance."""

    def operand(self, name: str, kind: str) -> str:
        """The text of an operand that is a constant, or a new variable of this type."""
        if kind in ("true", "false") or kind.lstrip("-").isdigit():
            return kind
        self[name] = kind
        return name

    def operands(self, name: str, kinds) -> list[str]:
        return [self.operand(f"{name}{index}", kind) for index, kind in enumerate(kinds)]


def value(text: str, assignment: dict):
    """An operand under an assignment."""
    if text in ("true", "false"):
        return text == "true"
    return assignment[text] if text in assignment else int(text)


def array(texts: list[str]) -> str:
    return "[" + ",".join(texts) + "]"


def small(declarations: dict[str, str]) -> bool:
    size = 1
    for kind in declarations.values():
        size *= len(domain(kind))
    return size <= 3000


TIMES = range(-4, 8)


def check(constraint: str, declarations: Declarations, holds) -> None:
    """Compare the plain and the half-reified form."""
    if not small(declarations):
        return
    check_against(constraint, declarations, lambda **assignment: holds(assignment))
    name, _, arguments = constraint.partition("(")
    check_against(
        f"{name}_imp({arguments[:-1]},r)",
        declarations | {"r": "bool"},
        lambda r, **assignment: not r or holds(assignment),
    )


@EXAMPLES
@example(  # CP-SAT's own enumeration loses one of the 452 solutions, in presolve
    [("true", "-1", "-2..0", "1..2"), ("bool", "-2..-2", "-1..0", "0..1"), ("bool", "-1..0", "0", "0..1")], "2..3"
)
@given(st.lists(st.tuples(literal, int_operand, int_operand, natural), max_size=3), int_operand)
def test_cumulative_intervals(tasks, capacity):
    declarations = Declarations()
    active, start, end, height = (
        declarations.operands(name, [task[column] for task in tasks]) for column, name in enumerate("asez")
    )
    limit = declarations.operand("c", capacity)

    def holds(assignment) -> bool:
        rows = [tuple(value(text, assignment) for text in row) for row in zip(active, start, end, height, strict=False)]
        rows = [row[1:] for row in rows if row[0]]
        load = max(sum(amount for first, last, amount in rows if first <= time <= last) for time in TIMES)
        return all(first <= last for first, last, _ in rows) and load <= value(limit, assignment)

    arguments = ",".join([array(active), array(start), array(end), array(height), limit])
    check(f"fzn_cumulative_intervals({arguments})", declarations, holds)


@EXAMPLES
@example(  # CP-SAT's own enumeration loses two of the 273 solutions of the half-reified form, in search
    [("bool", "0", "2", "1..2"), ("bool", "-1..1", "3", "1..2"), ("bool", "0", "{1,2,-1}", "0..1")], "1..3", False
)
@given(st.lists(st.tuples(literal, int_operand, int_operand, natural), max_size=3), int_operand, st.booleans())
def test_cumulative(tasks, capacity, optional):
    declarations = Declarations()
    present, start, duration, height = (
        declarations.operands(name, [task[column] for task in tasks]) for column, name in enumerate("psdz")
    )
    limit = declarations.operand("c", capacity)
    if not optional:
        declarations = Declarations({name: kind for name, kind in declarations.items() if name[0] != "p"})

    def holds(assignment) -> bool:
        columns = (start, duration, height) if not optional else (start, duration, height, present)
        rows = [tuple(value(text, assignment) for text in row) for row in zip(*columns, strict=False)]
        rows = [row for row in rows if not optional or row[3]]
        loads = [sum(row[2] for row in rows if row[0] <= time < row[0] + row[1]) for time in TIMES]
        return not start or max(loads) <= value(limit, assignment)

    columns = [array(start), array(duration), array(height), limit]
    if optional:
        check(f"fzn_cumulative_optional({','.join([array(present), *columns])})", declarations, holds)
    else:
        check(f"fzn_cumulative({','.join(columns)})", declarations, holds)


@EXAMPLES
@given(st.lists(st.tuples(int_operand, st.integers(-2, 2), literal), max_size=4), st.integers(-3, 1))
def test_reservoir(events, least):
    declarations = Declarations()
    time = declarations.operands("t", [event[0] for event in events])
    change = [event[1] for event in events]
    active = declarations.operands("a", [event[2] for event in events])

    def holds(assignment) -> bool:
        rows = [(value(t, assignment), c, value(a, assignment)) for t, c, a in zip(time, change, active, strict=False)]
        levels = [sum(c for t, c, a in rows if a and t <= moment) for moment in TIMES]
        return min(levels) >= least

    arguments = ",".join([array(time), array(list(map(str, change))), array(active), str(least)])
    check(f"fzn_reservoir({arguments})", declarations, holds)


@EXAMPLES
@given(st.lists(st.tuples(literal, int_operand, int_operand), max_size=3), st.booleans(), st.booleans())
def test_disjunctive(tasks, strict, optional):
    declarations = Declarations()
    present, start, duration = (
        declarations.operands(name, [task[column] for task in tasks]) for column, name in enumerate("psd")
    )
    if not optional:
        declarations = Declarations({name: kind for name, kind in declarations.items() if name[0] != "p"})
        present = ["true"] * len(tasks)

    def holds(assignment) -> bool:
        rows = [tuple(value(text, assignment) for text in row) for row in zip(present, start, duration, strict=False)]
        busy = [(first, length) for here, first, length in rows if here and (strict or length)]
        pairs = itertools.combinations(busy, 2)
        apart = all(one + length <= other or other + more <= one for (one, length), (other, more) in pairs)
        return apart and all(length >= 0 for _, _, length in rows)

    name = f"fzn_disjunctive{'_strict' * strict}{'_optional' * optional}"
    columns = [array(present)] * optional + [array(start), array(duration)]
    check(f"{name}({','.join(columns)})", declarations, holds)


@pytest.mark.full
@EXAMPLES
@given(st.lists(st.tuples(int_operand, int_operand, int_operand, int_operand), max_size=3), st.booleans())
def test_diffn(boxes, strict):
    declarations = Declarations()
    names = ("x", "y", "dx", "dy")
    columns = [declarations.operands(name, [box[axis] for box in boxes]) for axis, name in enumerate(names)]

    def apart(one, other) -> bool:
        gaps = [one[0] + one[2] <= other[0], other[0] + other[2] <= one[0]]
        gaps += [one[1] + one[3] <= other[1], other[1] + other[3] <= one[1]]
        return any(gaps) or (not strict and 0 in (*one[2:], *other[2:]))

    def holds(assignment) -> bool:
        rows = [tuple(value(text, assignment) for text in row) for row in zip(*columns, strict=False)]
        return all(apart(one, other) for one, other in itertools.combinations(rows, 2))

    check(f"fzn_diffn{'_nonstrict' * (not strict)}({','.join(map(array, columns))})", declarations, holds)


@EXAMPLES
@given(literal, int_operand, st.lists(st.tuples(literal, literal, int_operand, int_operand), max_size=2))
def test_served_read(takes_place, at, copies):
    declarations = Declarations()
    reads, event = declarations.operand("p", takes_place), declarations.operand("t", at)
    serves, active, start, end = (
        declarations.operands(name, [copy[column] for copy in copies]) for column, name in enumerate("vase")
    )

    def holds(assignment) -> bool:
        rows = zip(serves, active, start, end, strict=True)
        serving = [row[1:] for row in ([value(text, assignment) for text in row] for row in rows) if row[0]]
        fits = all(is_active and first < value(event, assignment) <= last for is_active, first, last in serving)
        return fits and len(serving) == value(reads, assignment)

    arguments = ",".join([reads, event, *map(array, (serves, active, start, end))])
    check(f"fzn_served_read({arguments})", declarations, holds)


def test_size_of_an_interval_reaches_over_the_whole_domain():
    text = flatzinc(
        "fzn_cumulative_intervals([true],[s],[e],[1],1)", {"s": "-1000000000..1000000000", "e": "-5..2000000000"}
    ).replace("solve satisfy", "constraint int_lin_le([1,-1],[s,e],-3000000000); solve satisfy")
    assert solutions(text) == [{"s": -1000000000, "e": 2000000000}]
