"""Tables of TOML, read so that every mistake is one line that names the key."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal

from moccasin_mzn.base.errors import InputError, shown
from moccasin_mzn.base.files import Json
from moccasin_mzn.base.formatting import closest

_MISSING = object()
_MEANT = {
    **dict.fromkeys(("file", "filename", "graph", "source", "json", "location"), ("path",)),
    **dict.fromkeys(("timeout", "time", "limit", "seconds", "max_time"), ("time_limit",)),
    **dict.fromkeys(("memory", "max_memory", "ram"), ("memory_limit", "budgets")),
    **dict.fromkeys(("budget", "capacity", "capacities"), ("budgets",)),
    **dict.fromkeys(("cores", "cpus", "workers", "jobs", "processes"), ("threads",)),
    **dict.fromkeys(("seed", "random_seed", "repetitions", "repeats", "runs"), ("seeds",)),
    **dict.fromkeys(("name", "title", "id"), ("label", "name")),
    **dict.fromkeys(("heuristic", "algorithm", "method"), ("strategy", "methods")),
    **dict.fromkeys(("backend", "engine"), ("solver",)),
    **dict.fromkeys(("gap", "mip_gap", "tolerance"), ("until_gap",)),
    **dict.fromkeys(("reference", "compare_with", "compared_with"), ("baseline",)),
    **dict.fromkeys(("generator", "command"), ("generate",)),
    **dict.fromkeys(("group", "kind", "category"), ("family",)),
}
"""Keys that people type for others by their meaning, and the keys that they may mean, the first known one counts."""


@dataclass(frozen=True)
class Fields:
    """The keys and values of one table, with its place in the file for messages."""

    values: Mapping[str, Json]
    where: str
    """The place of the table, such as "methods[2]"; empty for the top of the file."""

    def key(self, name: str) -> str:
        """Return the full name of a key."""
        return f"{self.where}.{name}" if self.where else name

    def only(self, known: Collection[str], why_not: Mapping[str, str] | None = None) -> None:
        """Refuse keys that are not known; `why_not` has the message for some of them.

        Raises:
            InputError: a key is unknown; the message names the nearest known one.
        """
        for name in self.values:
            if name in known:
                continue
            if why_not and name in why_not:
                raise InputError(f"{self.key(name)}: {why_not[name]}")
            near = next((key for key in _MEANT.get(name.casefold(), ()) if key in known), "") or closest(name, known)
            hint = f"did you mean {near}?" if near else f"expected one of {', '.join(known)}"
            raise InputError(f"{self.key(name)}: unknown key, {hint}")

    def text(self, name: str, default: Json = _MISSING) -> str:
        """Return a string of one line that is not empty."""
        return self._get(name, default, "a string of one line that is not empty", _is_text)

    def flag(self, name: str, default: bool) -> bool:
        """Return a bool."""
        return self._get(name, default, "true or false", lambda value: type(value) is bool)

    def seconds(self, name: str, default: Json = _MISSING) -> float:
        """Return a positive number of seconds, 1e8 at most, which is three years."""
        expected = "a positive number of seconds, 1e8 at most"
        return float(self._get(name, default, expected, lambda value: _is_a(value, int, float) and 0 < value <= 1e8))

    def count(self, name: str, default: Json = _MISSING) -> int:
        """Return a positive integer below 2^31."""
        return self._get(name, default, "a positive integer", lambda value: _is_a(value, int) and 1 <= value < 2**31)

    def tables(self, name: str) -> list[Fields]:
        """Return the tables of an array of tables, [[name]]."""
        rows = self._list(name, [], f"a list of tables, [[{name}]]", lambda row: _is_a(row, dict))
        return [Fields(row, f"{self.key(name)}[{at}]") for at, row in enumerate(rows)]

    def texts(self, name: str, default: Json = _MISSING) -> tuple[str, ...]:
        """Return a list of strings; a single string is a list of one."""
        if _is_text(self.values.get(name)):
            return (self.values[name],)
        return tuple(self._list(name, default, "a list of strings that are not empty", _is_text))

    def amounts(self, name: str, default: Json = _MISSING) -> tuple[str, ...]:
        """Return a list of numbers and strings, numbers as texts with all their digits; one alone is a list of one."""
        if _is_amount(self.values.get(name)):
            return (_amount_text(self.values[name]),)
        expected = 'a list of budgets, such as 0.8, "80%" and "1.5GiB"'
        return tuple(map(_amount_text, self._list(name, default, expected, _is_amount)))

    def integers(self, name: str, default: Json = _MISSING) -> tuple[int, ...]:
        """Return a list of integers that are all different."""
        value = tuple(self._list(name, default, "a list of integers", lambda one: _is_a(one, int)))
        if len(set(value)) < len(value):
            raise InputError(f"{self.key(name)}: a number is given twice in {shown(list(value))}")
        return value

    @contextlib.contextmanager
    def at(self, name: str) -> Iterator[None]:
        """Put the name of a key before the message of an `InputError` raised inside."""
        try:
            yield
        except InputError as error:
            raise InputError(f"{self.key(name)}: {error}") from None

    def _list(self, name: str, default: Json, expected: str, fits: Callable[[Json], bool]) -> Json:
        return self._get(name, default, expected, lambda value: _is_a(value, list) and all(map(fits, value)))

    def _get(self, name: str, default: Json, expected: str, fits: Callable[[Json], bool]) -> Json:
        value = self.values.get(name, default)
        if value is _MISSING:
            raise InputError(f"{self.key(name)}: missing, expected {expected}")
        if name in self.values and not fits(value):
            raise InputError(f"{self.key(name)}: {shown(value)}, expected {expected}")
        return value


def _is_a(value: object, *forms: type) -> bool:
    return type(value) in forms  # True is an int elsewhere


def _is_amount(value: object) -> bool:
    return _is_text(value) or type(value) is int or (type(value) is float and math.isfinite(value))


def _amount_text(value: str | int | float) -> str:
    return format(Decimal(repr(value)), "f") if isinstance(value, float) else str(value)


def _is_text(value: object) -> bool:
    return type(value) is str and value.strip() == value and value != "" and value.isprintable()
