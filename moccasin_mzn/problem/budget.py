"""Memory budgets as people give them: absolute, or a fraction of what the input order needs."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from moccasin_mzn.base.arguments import named
from moccasin_mzn.base.checks import plain
from moccasin_mzn.base.doc_links import Page
from moccasin_mzn.base.errors import InputError, shown

_PREFIXES = {"k": 1, "m": 2, "g": 3, "t": 4}
UNITS = {"": 1, "b": 1}
"""Sizes of units in bytes, by name in small letters."""
UNITS |= {f"{prefix}ib": 1024**power for prefix, power in _PREFIXES.items()}
UNITS |= {prefix + b: 1000**power for prefix, power in _PREFIXES.items() for b in ("", "b")}
_FORM = re.compile(r"(?P<number>\d{1,30}(?P<decimals>\.\d{1,30})?)\s*(?P<unit>[A-Za-z]*|%)", re.ASCII)
FORMS = "4096, 512 MiB, 1.5 GiB; in powers of 1000 1.5 GB, 2G; K, M and T likewise"
"""The ways of writing an amount of memory."""
_EXPECTED = f"expected a fraction of the peak (0.8 or 80%) or an amount of memory ({FORMS})"


@named
@dataclass(frozen=True)
class Budget:
    """A memory budget: exactly one of the two is set.

    Raises:
        InputError: an amount below 1; a fraction of 0 or less, or over 1.
    """

    amount: int | None = None
    """In the graph's size unit."""
    fraction: Fraction | None = None
    """A share of the peak of the input order with every node computed once."""

    if TYPE_CHECKING:  # what is taken; the fields are what it becomes

        def __init__(self, amount: int | None = None, fraction: Fraction | float | None = None) -> None: ...

    def __post_init__(self) -> None:
        if (self.amount is None) == (self.fraction is None):
            raise InputError("budget: give either an amount or a fraction")
        amount, fraction = plain(self.amount), _fraction(plain(self.fraction))
        if amount is not None and type(amount) is not int:
            raise InputError(f"budget {shown(self.amount)}: expected an integer as the amount")
        object.__setattr__(self, "amount", amount)
        object.__setattr__(self, "fraction", fraction)
        if self.amount is not None and self.amount < 1:
            raise InputError(f"budget {shown(self.amount)} is not positive")
        if self.fraction is not None and not 0 < self.fraction <= 1:
            wrong = f"budget {_text(self.fraction)} is not a fraction of the peak, over 0 and up to 1"
            raise InputError(f"{wrong}; an amount has a unit: 1.5GiB")

    def resolve(self, peak: int) -> int:
        """The budget in the graph's size unit: a fraction f of `peak` is rounded up, ceil(f * peak)."""
        if self.amount is not None:
            return self.amount
        assert self.fraction is not None
        return math.ceil(self.fraction * peak)

    @classmethod
    def of(cls, value: Budget | int | float | Fraction | str) -> Budget:
        """An int is an amount, a float or Fraction a fraction, a str is read as by `parse`.

        Raises:
            InputError: the value is something else, or nonsense.
        """
        value = plain(value)
        if isinstance(value, Budget):
            return value
        if isinstance(value, str):
            return cls.parse(value)
        if isinstance(value, float) and math.isfinite(value):
            return cls(fraction=_fraction(value))
        if isinstance(value, Fraction):
            return cls(fraction=value)
        if type(value) is int:
            return cls(amount=value)
        raise InputError(f"budget {shown(value)}: {_EXPECTED}")

    @classmethod
    def parse(cls, text: str) -> Budget:
        """Read a budget: a fraction of the peak with a decimal point or %, an amount as an integer or with a unit.

        Units are B; KiB, MiB, GiB, TiB, powers of 1024; K, M, G, T with or without a B, powers of 1000.

        Raises:
            InputError: it is neither.
        """
        form = _FORM.fullmatch(text.strip())
        if form is None:
            raise InputError(Page.AMOUNTS.after(f"budget {shown(text)}: {_EXPECTED}"))
        number, unit = Fraction(form["number"]), form["unit"].lower()
        if unit == "%":
            return cls(fraction=number / 100)
        if unit not in UNITS:
            raise InputError(Page.AMOUNTS.after(f"budget {shown(text)}: unknown unit {form['unit']}, {_EXPECTED}"))
        if form["decimals"] and not unit:
            return cls(fraction=number)
        return cls(amount=math.floor(number * UNITS[unit]))


def _fraction(value: object) -> Fraction | None:
    """A number as people mean it: 0.9 is nine tenths, not the nearest floating-point number."""
    if value is None or isinstance(value, Fraction):
        return value
    if type(value) is int:
        return Fraction(value)
    if type(value) is not float or not math.isfinite(value):
        raise InputError(f"budget {shown(value)}: expected a fraction of the peak, over 0 and up to 1")
    return Fraction(repr(value))


def _text(fraction: Fraction) -> str:
    """The number as it was given, never a rounded one; 4/3 where it is no decimal number."""
    try:
        text = repr(float(fraction)).removesuffix(".0")
    except OverflowError:
        return "over 10^308"
    return text if Fraction(text) == fraction else str(fraction)
