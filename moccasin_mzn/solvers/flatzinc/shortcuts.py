"""A fast path for the items that make up almost all of a large file."""

from __future__ import annotations

import json
import re

from moccasin_mzn.solvers.flatzinc.syntax import Constraint, Expression, FlatZinc, IntSet, Variable, VariableArray

_MORE_DIGITS_THAN_64_BITS_ALWAYS_TAKE = re.compile(r"[0-9]{19}")


class Shortcuts:
    """One regular expression per frequent item; every method returns the offset after the item, or 0.

    An item with a number of very many digits is left to the grammar, which checks every integer.
    """

    _NAME = r"[A-Za-z_][A-Za-z0-9_]*"
    _ANNOTATIONS = rf"((?:\s*::\s*{_NAME}(?:\({_NAME}\))?)*)"
    _SIMPLE = r"[^][(){};:\"%=\n]*+"
    _PLAIN = rf"({_SIMPLE}(?:\[{_SIMPLE}\]{_SIMPLE})*+)"
    _NEW_NAME = rf"((?!true\b|false\b){_NAME})"
    _LINEAR = re.compile(
        rf"constraint (int_lin_[a-z]++)\((?:{_NEW_NAME}|\[([-0-9,]++)\]),\[({_NAME}(?:,{_NAME})*+)\],(-?[0-9]++)\)"
        rf"{_ANNOTATIONS}\s*;\s*",
        re.ASCII,
    )
    _CONSTRAINT = re.compile(rf"constraint ({_NAME})\({_PLAIN}\){_ANNOTATIONS}\s*;\s*", re.ASCII)
    _VARIABLE = re.compile(rf"var (?:(bool)|(-?\d+)\.\.(-?\d+)) *: {_NEW_NAME}{_ANNOTATIONS}\s*;\s*", re.ASCII)
    _ARRAY = re.compile(
        rf"array *\[1\.\.(\d+)\] of (?:(var) )?(?:(bool)|int) *: {_NEW_NAME}{_ANNOTATIONS}"
        rf" *= *\[{_PLAIN}\]\s*;\s*",
        re.ASCII,
    )
    _IDENTIFIER = re.compile(r"\b((?!true\b|false\b)[A-Za-z_][A-Za-z0-9_]*)", re.ASCII)
    _OUTPUT = re.compile(r"::\s*output_var\b")

    def __init__(self, file: FlatZinc) -> None:
        self.file = file
        self.readers = {"con": self._linear, "var": self._variable, "arr": self._array}
        self.long_number = -1

    def item(self, position: int) -> int:
        """Read the item at `position` if it has a simple shape; 0 if not."""
        if self.long_number < position:
            match = _MORE_DIGITS_THAN_64_BITS_ALWAYS_TAKE.search(self.file.text, position)
            self.long_number = match.start() if match else len(self.file.text)
        reader = self.readers.get(self.file.text[position : position + 3])
        return reader(position) if reader else 0

    def _match(self, pattern: re.Pattern[str], position: int) -> re.Match[str] | None:
        match = pattern.match(self.file.text, position)
        return match if match and match.end() <= self.long_number else None

    def _values(self, text: str) -> list[Expression] | None:
        try:
            return json.loads("[" + '"'.join(self._IDENTIFIER.split(text)) + "]")  # every second part is an identifier
        except ValueError:
            return None

    def _linear(self, position: int) -> int:
        """A linear constraint of integers, for which no JSON is needed; any other goes to `_constraint`."""
        match = self._match(self._LINEAR, position)
        if not match:
            return self._constraint(position)
        name, coefficients, listed, variables, constant, _ = match.groups()
        operands: list[Expression] = variables.split(",")
        if "true" in operands or "false" in operands:
            return self._constraint(position)
        try:
            arguments = [coefficients or list(map(int, listed.split(","))), operands, int(constant)]
        except ValueError:
            return self._constraint(position)
        self.file.constraints.append(Constraint(name, arguments, position))
        return match.end()

    def _constraint(self, position: int) -> int:
        match = self._match(self._CONSTRAINT, position)
        if not match:
            return 0
        values = self._values(match[2])
        if values is None:
            return 0
        self.file.constraints.append(Constraint(match[1], values, position))
        return match.end()

    def _variable(self, position: int) -> int:
        match = self._match(self._VARIABLE, position)
        if not match:
            return 0
        is_bool, low, high, name, annotations = match.groups()
        if name in self.file.positions:
            return 0
        domain = None if is_bool else IntSet.of_range(int(low), int(high))
        is_output = "output_var" in annotations and bool(self._OUTPUT.search(annotations))
        self.file.variables[name] = Variable(name, bool(is_bool), domain, is_output, None)
        self.file.positions[name] = position
        return match.end()

    def _array(self, position: int) -> int:
        match = self._match(self._ARRAY, position)
        if not match:
            return 0
        length, var, is_bool, name, _, text = match.groups()
        values = self._values(text)
        if values is None or len(values) != int(length) or name in self.file.positions:
            return 0
        if var:
            self.file.arrays[name] = VariableArray(name, bool(is_bool), values, None)
        elif set(map(type, values)) <= {bool if is_bool else int}:
            self.file.parameters[name] = values
        else:
            return 0
        self.file.positions[name] = position
        return match.end()
