"""A file with continuous floats as one of linear rows only, for HiGHS.

Rows stay as they stand in the text. Bools are 0-1 variables, on which clauses, conjunctions and disjunctions are rows.
A condition `b -> row` is the row with the most that it can be exceeded by, times 1 - b: that has to be finite. Nothing
else is taken.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction

from moccasin_mzn.solvers.cpsat.floats.items import ONE, FloatBounds, FloatRow, Form, Reading
from moccasin_mzn.solvers.cpsat.registry import IF_FALSE, IF_TRUE, Half, find_halves
from moccasin_mzn.solvers.flatzinc.parser import Tokens
from moccasin_mzn.solvers.flatzinc.syntax import Constraint, Expression, FlatZinc, FlatZincError

AS_THEY_ARE = {
    *(f"{kind}_{name}" for kind in ("int", "float") for name in ("lin_le", "lin_eq", "le", "eq", "plus")),
    "int_lt", "int2float",
}  # fmt: skip
"""What `solvers.linear` takes."""
LARGEST = 10**6
"""The most by which a row may be exceeded where its condition is false: tolerances times that still mean nothing."""
Rows = Iterator[tuple[list[tuple[Fraction | int, Expression]], Fraction | int]]
"""Terms, factor times operand, and what their sum is at most."""


class NotLinearError(Exception):
    """There are no rows for a constraint."""


def as_rows(file: FlatZinc) -> str | None:
    """The text of a file that states the same in linear rows; None if absent."""
    try:
        return _Writing(file).text()
    except (NotLinearError, FlatZincError, ValueError, TypeError, LookupError, ArithmeticError):
        return None


class _Writing:
    def __init__(self, file: FlatZinc) -> None:
        self.file = file
        self.halves = _halves(file)
        self.bounds = FloatBounds(file)
        floats = {name: Form({name: ONE}) for name, each in file.variables.items() if each.is_float}
        self.reading = Reading(file, floats)

    def text(self) -> str:
        pieces, position, tokens = [], 0, Tokens(self.file)
        for item in sorted(self.file.constraints, key=lambda item: item.position):
            if item.name in AS_THEY_ARE:
                continue
            tokens.seek(item.position)
            while not tokens.at(";"):
                tokens.advance()
            rows = (_written(terms, most) for terms, most in self._rows(item))
            pieces += [self.file.text[position : item.position], *rows]
            position = tokens.stop
        return "".join([*pieces, self.file.text[position:]])

    def _rows(self, item: Constraint) -> Rows:
        stem, arguments = item.name, item.arguments
        if stem in ("bool_clause", "bool_clause_reif"):
            positive, negative, result = (*arguments, True)[:3]
            yield from self._disjunction(positive, negative, result)
        elif stem == "array_bool_or":
            yield from self._disjunction(arguments[0], [], arguments[1])
        elif stem == "array_bool_and":
            parts = self.reading.elements(arguments[0])
            yield [*((1, each) for each in parts), (-1, arguments[1])], len(parts) - 1
            for each in parts:
                yield [(1, arguments[1]), (-1, each)], 0
        elif stem in ("bool2int", "bool_eq"):
            yield from _equal([(1, arguments[0]), (-1, arguments[1])], 0)
        elif stem == "bool_not":
            yield from _equal([(1, arguments[0]), (1, arguments[1])], 1)
        elif stem == "bool_le":
            yield [(1, arguments[0]), (-1, arguments[1])], 0
        elif stem.endswith(("_reif", "_imp")):
            yield from self._conditional(item, self.halves.get(id(item)))
        else:
            raise NotLinearError(stem)

    def _disjunction(self, positive: Expression, negative: Expression, result: Expression) -> Rows:
        """result <-> some of the first is true, or of the second false"""
        plain, negated = self.reading.elements(positive), self.reading.elements(negative)
        yield [*((-1, each) for each in plain), *((1, each) for each in negated), (1, result)], len(negated)
        if result is not True:
            for each in plain:
                yield [(1, each), (-1, result)], 0
            for each in negated:
                yield [(-1, each), (-1, result)], -1

    def _conditional(self, item: Constraint, half: Half | None) -> Rows:
        """bool -> row, and not bool -> its negation, unless one of them is not asked for."""
        *_, truth = item.arguments
        reified = item.name.endswith("_reif")
        relation, form, whole = self._compared(item)
        if not reified or half is None or half.direction == IF_TRUE:
            if relation == "lt":
                raise NotLinearError(item.name)
            yield from self._when(form, truth, true=True)
            if relation == "eq":
                yield from self._when(form.times(-ONE), truth, true=True)
        if reified and (half is None or half.direction == IF_FALSE):
            if relation == "eq" or (relation == "le" and not whole):
                raise NotLinearError(item.name)  # the negation of `<=` is `>`
            less = Fraction(relation == "le")
            yield from self._when(Form.total([(-ONE, form)], less), truth, true=False)

    def _compared(self, item: Constraint) -> tuple[str, Form, bool]:
        """Relation of the form to 0, and whether only integers are in it."""
        if "float" in item.name:
            row = self.reading.take(item)
            if not isinstance(row, FloatRow) or row.relation == "ne":
                raise NotLinearError(item.name)
            return row.relation, row.form, False
        name, arguments = item.name.rpartition("_")[0], item.arguments[:-1]
        read = self.reading.integer
        if name in ("int_lin_le", "int_lin_eq"):
            factors = map(self.reading.number, self.reading.elements(arguments[0]))
            terms = map(read, self.reading.elements(arguments[1]))
            form = Form.total(zip(factors, terms, strict=True), -self.reading.number(arguments[2]))
        elif name in ("int_le", "int_eq", "int_lt"):
            form = Form.total([(ONE, read(arguments[0])), (-ONE, read(arguments[1]))], Fraction(name == "int_lt"))
        else:
            raise NotLinearError(item.name)
        return "eq" if name.endswith("_eq") else "le", form, True

    def _when(self, form: Form, truth: Expression, *, true: bool) -> Rows:
        """form <= 0 if the truth is as given"""
        most = self.bounds.interval(form)[1]
        if most > LARGEST:
            raise NotLinearError
        excess = max(Fraction(most), Fraction(0))
        terms: list[tuple[Fraction | int, Expression]] = [(factor, base) for base, factor in form.factors.items()]
        if true:
            yield [*terms, (excess, truth)], excess - form.constant
        else:
            yield [*terms, (-excess, truth)], -form.constant


def _halves(file: FlatZinc) -> dict[int, Half]:
    """Find halves as `find_halves` does, which knows only constraints on integers."""
    named = [replace(item, name=item.name.replace("float_", "int_")) for item in file.constraints]
    found = find_halves(replace(file, constraints=named), deep=True)
    return {id(item): found[id(one)] for item, one in zip(file.constraints, named, strict=True) if id(one) in found}


def _equal(terms: list[tuple[Fraction | int, Expression]], side: int) -> Rows:
    yield terms, side
    yield [(-factor, each) for factor, each in terms], -side


def _written(terms: list[tuple[Fraction | int, Expression]], most: Fraction | int) -> str:
    """A row as an item, with constants among the operands moved to its side."""
    most -= sum(factor * int(each) for factor, each in terms if type(each) in (int, bool))
    kept = [(factor, each) for factor, each in terms if type(each) not in (int, bool)]
    factors = ",".join(repr(float(factor)) for factor, _ in kept)
    return f"constraint float_lin_le([{factors}],[{','.join(str(each) for _, each in kept)}],{float(most)!r});\n"
