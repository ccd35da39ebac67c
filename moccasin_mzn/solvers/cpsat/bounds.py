"""Bounds of the integer variables that are declared without any, found before a variable is created.

CP-SAT needs a finite domain for everything, and wide ones overflow in products. What the constraints imply is better
than any guess: interval propagation over those that mention an unbounded variable. Right-hand sides of variables count
as constraints.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Mapping
from itertools import chain
from math import inf, isqrt, log2

from moccasin_mzn.solvers.flatzinc.syntax import Constraint, Expression, FlatZinc, IntSet, Variable

MOST_UPDATES = 30
"""How often the bounds of one variable may improve: some pairs of constraints would go on forever."""
DIGITS = 62
"""Binary digits of the numbers that CP-SAT can represent."""

Interval = tuple[float, float]
"""Least and greatest value; integers, or infinite."""


def implied_bounds(file: FlatZinc, limits: Mapping[str, Interval] | None = None) -> dict[str, Interval] | None:
    """An interval for every variable declared as plain `var int`, infinite on a side where nothing is known; None if
    that shows that there is no solution. `limits` imply more about some variables of any type.
    """
    known: dict[str, Interval] = {}
    for variable in file.variables.values():
        if variable.domain is None and not variable.is_bool:
            known[variable.name] = (-inf, inf)
    for name, (low, high) in (limits or {}).items():
        ends = _declared(file.variables.get(name))
        known[name] = max(low, ends[0]), min(high, ends[1])
        if known[name][0] > known[name][1]:
            return None
    try:
        return _Propagation(file, known).run() if known else {}
    except _Contradiction:
        return None


def _declared(variable: Variable | None) -> Interval:
    """What the type of a variable states."""
    if variable is not None and variable.is_bool:
        return 0, 1
    domain = variable.domain if variable is not None else None
    if not isinstance(domain, IntSet) or not domain.ranges:
        return -inf, inf
    return domain.ranges[0][0], domain.ranges[-1][1]


class _Contradiction(Exception):
    """Some variable can have no value."""


class _Propagation:
    def __init__(self, file: FlatZinc, known: dict[str, Interval]) -> None:
        self.file = file
        self.known = known
        self.updates: dict[str, int] = dict.fromkeys(known, 0)
        self.mentions: dict[str, list[Constraint]] = defaultdict(list)
        self.rules: dict[str, Callable[..., object]] = {
            "int_lin_eq": lambda factors, terms, total: self._linear(factors, terms, total, exact=True),
            "int_lin_le": lambda factors, terms, total: self._linear(factors, terms, total, exact=False),
            "bool_lin_eq": lambda factors, terms, total: self._linear([*factors, -1], [*terms, total], 0, exact=True),
            "int_eq": lambda left, right: self._linear([1, -1], [left, right], 0, exact=True),
            "int_le": lambda left, right: self._linear([1, -1], [left, right], 0, exact=False),
            "int_lt": lambda left, right: self._linear([1, -1], [left, right], -1, exact=False),
            "int_plus": lambda left, right, total: self._linear([1, 1, -1], [left, right, total], 0, exact=True),
            "set_in": lambda term, values: self._narrow(term, self.interval(values)),
            "int_times": self._times,
            "bool2int": lambda truth, term: self._narrow(term, (0, 1)),
            "int_abs": self._abs,
            "int_max": lambda left, right, result: self._extreme(max, [left, right], result),
            "int_min": lambda left, right, result: self._extreme(min, [left, right], result),
            "array_int_maximum": lambda result, terms: self._extreme(max, terms, result),
            "array_int_minimum": lambda result, terms: self._extreme(min, terms, result),
            "array_int_element": lambda index, terms, result: self._element(1, index, terms, result),
            "array_var_int_element": lambda index, terms, result: self._element(1, index, terms, result),
            "array_var_int_element_from": self._element,
            "int_div": self._quotient,
            "int_mod": self._remainder,
            "int_pow": self._power,
            "int_pow_fixed": self._power,
            "fzn_count_eq": lambda terms, value, count: self._narrow(count, (0, len(terms))),
            "fzn_among": lambda count, terms, values: self._narrow(count, (0, len(terms))),
            "fzn_nvalue": lambda count, terms: self._narrow(count, (0, len(terms))),
            "fzn_global_cardinality": lambda terms, cover, counts: self._narrow_all(counts, 0, len(terms) + 1),
            "fzn_global_cardinality_closed": lambda terms, cover, counts: self._narrow_all(counts, 0, len(terms) + 1),
            "fzn_maximum_arg_int_offset": lambda terms, first, index: self._narrow_all([index], first, len(terms)),
            "fzn_minimum_arg_int_offset": lambda terms, first, index: self._narrow_all([index], first, len(terms)),
            "fzn_bin_packing_load_offset": self._loads,
            "fzn_table_int_flat": self._table,
            "fzn_circuit_offset": lambda terms, first: self._narrow_all(terms, first, len(terms)),
            "fzn_subcircuit_offset": lambda terms, first: self._narrow_all(terms, first, len(terms)),
            "fzn_inverse_offset": self._inverse,
            "fzn_regular_flat": lambda terms, first, width, *_: self._narrow_all(terms, first, width),
            "fzn_regular_nfa_flat": lambda terms, first, width, *_: self._narrow_all(terms, first, width),
            "fzn_cost_regular_flat": self._cost_regular,
        }

    def run(self) -> dict[str, Interval]:
        """Propagate until nothing changes."""
        sides = [
            Constraint("int_eq", [each.name, each.value], 0)
            for each in self.file.variables.values()
            if each.value is not None and not each.is_float
        ]
        for item in chain(sides, self.file.constraints):
            if item.name in self.rules:
                for name in set(self._names(item.arguments)):
                    self.mentions[name].append(item)
        self.queue = deque(dict.fromkeys(self.known))
        while self.queue:
            for item in self.mentions[self.queue.popleft()]:
                try:
                    self.rules[item.name](*map(self._value, item.arguments))
                except (TypeError, ValueError):
                    pass  # not what this constraint takes, which translation reports better
        return self.known

    def interval(self, value: Expression) -> Interval:
        """What is known about an operand or a set."""
        if type(value) is str and value in self.known:
            return self.known[value]
        value = self._value(value)
        if type(value) in (int, bool):
            return int(value), int(value)
        if isinstance(value, IntSet) and value.ranges:
            return value.ranges[0][0], value.ranges[-1][1]
        return _declared(self.file.variables.get(value) if type(value) is str else None)

    def _names(self, value: Expression) -> Iterator[str]:
        """The unbounded variables in an expression."""
        if type(value) is list:
            for element in value:
                yield from self._names(element)
        elif type(value) is str:
            if value in self.known:
                yield value
            elif value in self.file.arrays:
                elements = self.file.arrays[value].elements
                yield from (name for name in elements if type(name) is str and name in self.known)

    def _value(self, value: Expression) -> Expression:
        """An argument with names of arrays and parameters replaced by what they stand for."""
        if type(value) is str and value in self.file.arrays:
            return self.file.arrays[value].elements
        return self.file.parameters.get(value, value) if type(value) is str else value

    def _narrow(self, value: Expression, limits: Interval) -> None:
        if type(value) is not str or value not in self.known or self.updates[value] == MOST_UPDATES:
            return
        low, high = self.known[value]
        # Products can grow without end; what no variable can reach is left to the solver.
        least, most = (
            end if abs(end) < 2**DIGITS else open_end for end, open_end in zip(limits, (-inf, inf), strict=True)
        )
        narrowed = max(low, least), min(high, most)
        if narrowed[0] > narrowed[1]:
            raise _Contradiction
        if narrowed != (low, high):
            self.known[value] = narrowed
            self.updates[value] += 1
            self.queue.append(value)

    def _narrow_all(self, terms: list[Expression], first: int, count: int) -> None:
        """All terms are in first, first + 1, ..., a number of them."""
        for term in terms:
            self._narrow(term, (first, first + count - 1))

    def _table(self, terms: list[Expression], rows: list[int]) -> None:
        for column, term in enumerate(terms):
            if rows:
                values = rows[column :: len(terms)]
                self._narrow(term, (min(values), max(values)))

    def _loads(self, loads: list[Expression], first: int, bins: list[Expression], weights: list[int]) -> None:
        least, most = (sum(part(0, weight) for weight in weights) for part in (min, max))
        self._narrow_all(loads, least, most - least + 1)
        self._narrow_all(bins, first, len(loads))

    def _inverse(self, terms: list[Expression], inverses: list[Expression], first: int, other: int) -> None:
        self._narrow_all(terms, other, len(inverses))
        self._narrow_all(inverses, first, len(terms))

    def _cost_regular(
        self, terms: list[Expression], first: int, width: int, heads: list[int], start: int, finals: list[int],
        costs: list[int], total: Expression,
    ) -> None:  # fmt: skip
        self._narrow_all(terms, first, width)
        self._narrow(total, (len(terms) * min(costs), len(terms) * max(costs)))

    def _linear(self, factors: list[int], terms: list[Expression], total: int, *, exact: bool) -> None:
        """sum factors * terms <= total, or = total"""
        self._at_most(factors, terms, total)
        if exact:
            self._at_most([-factor for factor in factors], terms, -total)

    def _at_most(self, factors: list[int], terms: list[Expression], total: int) -> None:
        least = []
        for factor, term in zip(factors, terms, strict=True):
            low, high = self.interval(term)
            least.append(factor * low if factor > 0 else factor * high if factor else 0)
        open_ends = [index for index, value in enumerate(least) if value == -inf]
        if len(open_ends) > 1:
            return
        finite = sum(value for value in least if value != -inf)
        for index in open_ends or range(len(terms)):
            factor = factors[index]
            rest = total - finite + (0 if open_ends else least[index])
            if factor > 0:
                self._narrow(terms[index], (-inf, rest // factor))
            elif factor < 0:
                self._narrow(terms[index], (-(rest // -factor), inf))

    def _times(self, left: Expression, right: Expression, product: Expression) -> None:
        self._narrow(product, _product(self.interval(left), self.interval(right)))
        if left == right:
            self._narrow(product, (0, inf))
            largest = self.interval(product)[1]
            if 0 <= largest < inf:
                self._narrow(left, (-isqrt(int(largest)), isqrt(int(largest))))
        self._narrow(left, _factor(self.interval(product), self.interval(right)))
        self._narrow(right, _factor(self.interval(product), self.interval(left)))

    def _power(self, base: Expression, exponent: Expression, result: Expression) -> None:
        low, high = self.interval(base)
        least, most = self.interval(exponent)
        largest = max(-low, high, 1)
        if max(most, 0) * log2(largest) < DIGITS:
            largest **= max(most, 0)
            self._narrow(result, (0 if low >= 0 else -largest, largest))
        size = _magnitude(self.interval(result))
        if least >= 1 and size < 2**DIGITS:
            root = int(size ** (1 / int(least))) + 1  # never below the root, whatever a double rounds
            self._narrow(base, (-root, root))

    def _abs(self, term: Expression, size: Expression) -> None:
        low, high = self.interval(term)
        self._narrow(size, (max(0, low, -high), max(-low, high)))
        largest = self.interval(size)[1]
        self._narrow(term, (-largest, largest))

    def _extreme(self, choose: Callable[..., float], terms: list[Expression], result: Expression) -> None:
        """The result is the greatest, or least, of the terms."""
        lows, highs = zip(*map(self.interval, terms), strict=True)
        self._narrow(result, (choose(lows), choose(highs)))
        low, high = self.interval(result)
        for term in terms:
            self._narrow(term, (-inf, high) if choose is max else (low, inf))
        ends = [self.interval(term) for term in terms]
        reach = [
            term for term, end in zip(terms, ends, strict=True) if (end[1] >= low if choose is max else end[0] <= high)
        ]
        if len(reach) == 1:  # it is the result
            self._narrow(reach[0], (low, high))

    def _element(self, first: int, index: Expression, terms: list[Expression], result: Expression) -> None:
        self._narrow(index, (first, first + len(terms) - 1))
        low, high = self.interval(index)
        reach = terms[max(int(max(low, first)) - first, 0) : int(min(high, first + len(terms) - 1)) - first + 1]
        lows, highs = zip(*map(self.interval, reach), strict=True)
        self._narrow(result, (min(lows), max(highs)))
        if len(reach) == 1:
            self._narrow(reach[0], self.interval(result))

    def _quotient(self, dividend: Expression, divisor: Expression, result: Expression) -> None:
        """A quotient is rounded towards zero, and no divisor is 0."""
        left, right, part = map(self.interval, (dividend, divisor, result))
        size = _over(_magnitude(left), max(1, _least_magnitude(right)))
        low, high = -size, size
        if left[0] >= 0 and right[0] >= 0 or left[1] <= 0 and right[1] <= 0:
            low = 0
        elif left[0] >= 0 and right[1] <= 0 or left[1] <= 0 and right[0] >= 0:
            high = 0
        self._narrow(result, (low, high))
        size = (_magnitude(part) + 1) * max(_magnitude(right), 1) - 1
        self._narrow(dividend, (-size, size))
        if _least_magnitude(part):
            size = _over(_magnitude(left), _least_magnitude(part))
            self._narrow(divisor, (-size, size))

    def _remainder(self, dividend: Expression, divisor: Expression, result: Expression) -> None:
        """A remainder has the sign of the dividend, and is no larger; it is smaller than the divisor."""
        left, right = self.interval(dividend), self.interval(divisor)
        size = min(_magnitude(left), max(_magnitude(right) - 1, 0))
        self._narrow(result, (0 if left[0] >= 0 else -size, 0 if left[1] <= 0 else size))


def _magnitude(interval: Interval) -> float:
    """The greatest magnitude of its numbers."""
    return max(map(abs, interval))


def _least_magnitude(interval: Interval) -> float:
    """The least magnitude of its numbers."""
    return max(interval[0], -interval[1], 0)


def _over(dividend: float, divisor: float) -> float:
    """The quotient of two that are not negative, rounded down, and infinite if the dividend is."""
    return dividend if dividend == inf else 0 if divisor == inf else dividend // divisor


def _product(left: Interval, right: Interval) -> Interval:
    corners = [one * other if one and other else 0 for one in left for other in right]
    return min(corners), max(corners)


def _factor(product: Interval, other: Interval) -> Interval:
    """The integers x for which x * y is in `product` for some integer y in `other`."""
    low, high = other
    if product[0] <= 0 <= product[1]:
        if low <= 0 <= high:
            return -inf, inf
    else:  # neither factor is 0
        low, high = low or 1, high or -1
        if low < 0 < high:
            return -_magnitude(product), _magnitude(product)
    # A quotient by something infinite comes as close to 0 as one likes.
    corners = [(one, by) for one in product for by in (low, high)]
    least = min(0 if abs(by) == inf else one * by if abs(one) == inf else -(-one // by) for one, by in corners)
    most = max(0 if abs(by) == inf else one * by if abs(one) == inf else one // by for one, by in corners)
    return least, most
