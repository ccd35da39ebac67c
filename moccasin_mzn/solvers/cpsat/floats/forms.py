"""Sums of integer variables with fractions as factors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import floor, lcm

SIMPLE = 1000
"""The largest denominator that is looked for in a double of many digits."""
DIGITS = 15
"""Decimal digits of a double that mean something; the last one or two come from rounding."""
NOISE = Fraction(1, 10**12)
"""How far, relative to it or to 1, a side may be from a multiple of the step and still be meant as one: MiniZinc adds
constants up in doubles."""


def fraction(number: float) -> Fraction:
    """What a double stands for: 1/3 where it rounds that, else its decimal digits, without those that sums of doubles,
    which MiniZinc folds, leave at the end. OverflowError if it is infinite."""
    exact = Fraction(number)
    simple = exact.limit_denominator(SIMPLE)
    if abs(simple - exact) <= abs(exact) / 2**51:
        return simple
    return Fraction(f"{number:.{DIGITS}g}")


def at_most(side: Fraction, unit: Fraction) -> int:
    """The greatest number of steps of 1 / unit up to `side` steps, or one more if only noise is in between."""
    nearest = nearest_step(side, unit)
    return floor(side) if nearest is None else nearest


def nearest_step(side: Fraction, unit: Fraction) -> int | None:
    """The number of steps of 1 / unit that `side` steps are but for noise; None if they are not."""
    nearest = round(side)
    return nearest if abs(side - nearest) <= min(Fraction(1, 4), NOISE * max(unit, abs(side))) else None


@dataclass(frozen=True, slots=True)
class Form:
    """The number `sum factor * base + constant`; bases are the names of variables, and no factor is 0."""

    factors: Mapping[str, Fraction]
    constant: Fraction = Fraction(0)

    @staticmethod
    def total(parts: Iterable[tuple[Fraction, Form]], constant: Fraction = Fraction(0)) -> Form:
        """The sum of multiples of forms and a constant."""
        factors: dict[str, Fraction] = {}
        for weight, form in parts:
            constant += weight * form.constant
            for base, factor in form.factors.items():
                factors[base] = factors.get(base, Fraction(0)) + weight * factor
        return Form({base: factor for base, factor in factors.items() if factor}, constant)

    def times(self, weight: Fraction) -> Form:
        """A multiple of the form."""
        return Form.total([(weight, self)])

    def per_step(self, units: Mapping[str, int]) -> Form:
        """The form over integers that count steps of 1 / unit of the bases; those not in `units` are integers."""
        return Form({base: factor / units.get(base, 1) for base, factor in self.factors.items()}, self.constant)

    def denominator(self) -> int:
        """Of which all factors and the constant are multiples of one over it."""
        return lcm(self.constant.denominator, *(factor.denominator for factor in self.factors.values()))
