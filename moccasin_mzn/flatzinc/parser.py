"""FlatZinc text -> `syntax.FlatZinc`.

Almost every line of a large file has one of three simple shapes (a constraint, a variable, an array without sets),
which `_Shortcuts` reads with one regular expression and the JSON reader each. All else goes through the grammar below,
token by token, and so does a line that a shortcut cannot read: errors are only ever reported by the grammar.
"""

from __future__ import annotations

import json
import re

from .intset import IntSet
from .syntax import (
    Call,
    Constraint,
    Expression,
    FlatZinc,
    FlatZincSyntaxError,
    Solve,
    UnsupportedError,
    Variable,
    VariableArray,
    names_in,
)
from .tokens import Tokens, skip_blanks

_MORE_DIGITS_THAN_64_BITS_NEED = re.compile(r"\d{19}")


def parse(text: str, source: str = "FlatZinc") -> FlatZinc:
    """Read a whole file; `source` is its name in error messages.

    Raises `FlatZincSyntaxError` with file, line and column, and `UnsupportedError` for float and set variables.
    """
    file = FlatZinc(source, text)
    grammar = _Grammar(file)
    position, end = 0, len(text)
    shortcuts = _Shortcuts(file)
    while position < end:
        position = shortcuts.item(position) or grammar.item(position)
    if file.solve is None:
        raise FlatZincSyntaxError(f"{file.where(end)}: there is no solve item")
    return file


class _Shortcuts:
    """One regular expression per frequent item; every method returns the offset after the item, or 0."""

    _NAME = r"[A-Za-z_][A-Za-z0-9_]*"
    _ANNOTATIONS = rf"((?:\s*::\s*{_NAME}(?:\({_NAME}\))?)*)"
    _PLAIN = r"([^][(){}.;:\"%=\n]*(?:\[[^][(){}.;:\"%=\n]*\][^][(){}.;:\"%=\n]*)*)"
    _CONSTRAINT = re.compile(rf"constraint ({_NAME})\({_PLAIN}\){_ANNOTATIONS}\s*;\s*")
    _VARIABLE = re.compile(rf"var (?:(bool)|(-?\d+)\.\.(-?\d+)) *: ({_NAME}){_ANNOTATIONS}\s*;\s*")
    _ARRAY = re.compile(
        rf"array *\[1\.\.\d+\] of (?:(var) )?(?:(bool)|int) *: ({_NAME}){_ANNOTATIONS} *= *\[{_PLAIN}\]\s*;\s*"
    )
    _IDENTIFIER = re.compile(r"(?!true\b|false\b)[A-Za-z_][A-Za-z0-9_]*")
    _DEFINES = re.compile(rf"::\s*defines_var\(({_NAME})\)")
    _OUTPUT = re.compile(r"::\s*output_var\b")

    def __init__(self, file: FlatZinc) -> None:
        self.file = file
        self.readers = {"con": self._constraint, "var": self._variable, "arr": self._array}
        if _MORE_DIGITS_THAN_64_BITS_NEED.search(file.text):
            self.readers = {}  # let the grammar check every integer

    def item(self, position: int) -> int:
        """Read the item at `position` if it has a simple shape; 0 if not."""
        reader = self.readers.get(self.file.text[position : position + 3])
        return reader(position) if reader else 0

    def _values(self, text: str) -> list[Expression] | None:
        try:
            return json.loads("[" + self._IDENTIFIER.sub(r'"\g<0>"', text) + "]")
        except ValueError:
            return None

    def _constraint(self, position: int) -> int:
        match = self._CONSTRAINT.match(self.file.text, position)
        if not match:
            return 0
        name, arguments, annotations = match.groups()
        values = self._values(arguments)
        if values is None:
            return 0
        defines = self._DEFINES.search(annotations) if annotations else None
        self.file.constraints.append(Constraint(name, values, defines and defines[1], position))
        return match.end()

    def _variable(self, position: int) -> int:
        match = self._VARIABLE.match(self.file.text, position)
        if not match:
            return 0
        is_bool, low, high, name, annotations = match.groups()
        domain = None if is_bool else IntSet.of_range(int(low), int(high))
        is_output = bool(annotations) and bool(self._OUTPUT.search(annotations))
        self.file.variables[name] = Variable(name, bool(is_bool), domain, is_output, None)
        return match.end()

    def _array(self, position: int) -> int:
        match = self._ARRAY.match(self.file.text, position)
        values = self._values(match[5]) if match else None
        if values is None:
            return 0
        var, is_bool, name = match.group(1, 2, 3)
        if var:
            self.file.arrays[name] = VariableArray(name, bool(is_bool), values, None)
        else:
            self.file.parameters[name] = values
        return match.end()


class _Grammar:
    """The full grammar, by recursive descent over tokens; every `_` method leaves the head behind what it read."""

    def __init__(self, file: FlatZinc) -> None:
        self.file = file
        self.tokens = Tokens(file)

    def item(self, position: int) -> int:
        """Read the item at `position` and return the offset of the next one."""
        tokens = self.tokens
        tokens.seek(position)
        if tokens.kind == "end":
            return len(self.file.text)
        readers = {
            "predicate": self._predicate,
            "constraint": self._constraint,
            "solve": self._solve,
            "var": self._variable,
            "array": self._array,
        }
        reader = readers.get(tokens.text, self._parameter) if tokens.kind == "name" else self._parameter
        reader()
        if not tokens.at(";"):
            raise tokens.unexpected("';'")
        return skip_blanks(self.file.text, tokens.stop)

    def _predicate(self) -> None:
        while not self.tokens.at(";"):
            if self.tokens.kind == "end":
                raise self.tokens.unexpected("';'")
            self.tokens.advance()

    def _constraint(self) -> None:
        position = self.tokens.start
        self.tokens.advance()
        name = self.tokens.take_name()
        self.tokens.expect("(")
        arguments = self._expressions(")")
        defined = [
            item.arguments[0]
            for item in self._annotations()
            if isinstance(item, Call) and item.name == "defines_var" and isinstance(item.arguments[0], str)
        ]
        self.file.constraints.append(Constraint(name, arguments, defined[0] if defined else None, position))

    def _solve(self) -> None:
        tokens = self.tokens
        if self.file.solve is not None:
            raise tokens.error("there is a second solve item")
        tokens.advance()
        annotations = self._annotations()
        if tokens.text not in ("satisfy", "minimize", "maximize"):
            raise tokens.unexpected("satisfy, minimize or maximize")
        goal = tokens.take_name()
        objective = None if goal == "satisfy" else self._expression()
        self.file.solve = Solve(goal, objective, annotations)

    def _variable(self) -> None:
        tokens = self.tokens
        tokens.advance()
        is_bool, domain = self._variable_type()
        tokens.expect(":")
        name = tokens.take_name()
        annotations = self._annotations()
        value = self._expression() if tokens.accept("=") else None
        self.file.variables[name] = Variable(name, is_bool, domain, "output_var" in names_in(annotations), value)

    def _array(self) -> None:
        tokens = self.tokens
        tokens.advance()
        tokens.expect("[")
        self._expressions("]")
        tokens.expect("of")
        is_variable = tokens.accept("var")
        is_bool = self._variable_type()[0] if is_variable else self._parameter_type()
        tokens.expect(":")
        name = tokens.take_name()
        annotations = self._annotations()
        tokens.expect("=")
        start, elements = tokens.start, self._expression()
        if not isinstance(elements, list):
            raise FlatZincSyntaxError(f"{self.file.where(start)}: array literal expected")
        if is_variable:
            self.file.arrays[name] = VariableArray(name, is_bool, elements, self._output_sets(annotations))
        else:
            self.file.parameters[name] = elements

    def _output_sets(self, annotations: tuple[Expression, ...]) -> tuple[IntSet, ...] | None:
        for item in annotations:
            if isinstance(item, Call) and item.name == "output_array":
                sets = item.arguments[0]
                if not isinstance(sets, list) or not all(isinstance(index, IntSet) for index in sets):
                    raise self.tokens.error("output_array needs a list of index sets")
                return tuple(sets)
        return None

    def _parameter(self) -> None:
        tokens = self.tokens
        if tokens.kind not in ("name", "int", "float") and not tokens.at("{"):
            raise tokens.unexpected("an item")
        self._parameter_type()
        tokens.expect(":")
        name = tokens.take_name()
        self._annotations()
        tokens.expect("=")
        self.file.parameters[name] = self._expression()

    def _variable_type(self) -> tuple[bool, IntSet | None]:
        """(is it bool, domain)"""
        tokens = self.tokens
        if tokens.accept("bool"):
            return True, None
        if tokens.accept("int"):
            return False, None
        if tokens.at("set") or tokens.at("float") or tokens.kind == "float":
            kind = "set" if tokens.at("set") else "float"
            raise UnsupportedError(f"{self.file.where(tokens.start)}: var {kind} is not supported")
        start, domain = tokens.start, self._expression()
        if not isinstance(domain, IntSet):
            raise FlatZincSyntaxError(f"{self.file.where(start)}: type expected")
        return False, domain

    def _parameter_type(self) -> bool:
        """Step over the type of a parameter; is it bool?"""
        tokens = self.tokens
        if tokens.accept("set"):
            tokens.expect("of")
        for name in ("bool", "int", "float"):
            if tokens.accept(name):
                return name == "bool"
        if tokens.kind == "name":
            raise tokens.unexpected("an item")
        self._expression()
        return False

    def _annotations(self) -> tuple[Expression, ...]:
        annotations = []
        while self.tokens.accept("::"):
            if self.tokens.kind != "name":
                raise self.tokens.unexpected("annotation")
            annotations.append(self._expression())
        return tuple(annotations)

    def _expressions(self, closing: str) -> list[Expression]:
        """A comma-separated list up to and with `closing`."""
        tokens, values = self.tokens, []
        while not tokens.at(closing):
            values.append(self._expression())
            if not tokens.accept(","):
                break
        tokens.expect(closing)
        return values

    def _expression(self) -> Expression:
        tokens = self.tokens
        if tokens.kind == "int":
            low = tokens.take_int()
            return IntSet.of_range(low, tokens.take_int()) if tokens.accept("..") else low
        if tokens.kind == "float":
            return self._float()
        if tokens.kind == "string":
            return tokens.take_string()
        if tokens.accept("["):
            return self._expressions("]")
        if tokens.at("{"):
            return self._set()
        if tokens.kind == "name":
            return self._named()
        raise tokens.unexpected("expression")

    def _float(self) -> float:
        tokens = self.tokens
        value = float(tokens.text)
        tokens.advance()
        if tokens.accept(".."):
            tokens.advance()
        return value

    def _set(self) -> Expression:
        start = self.tokens.start
        self.tokens.advance()
        values = self._expressions("}")
        if all(type(value) is int for value in values):
            return IntSet.of_values(values)
        if all(type(value) in (int, float) for value in values):
            return values
        raise FlatZincSyntaxError(f"{self.file.where(start)}: a set of integers expected")

    def _named(self) -> Expression:
        """true, false, an identifier, a call, or one element of an array declared before."""
        tokens, start = self.tokens, self.tokens.start
        name = tokens.take_name()
        if name in ("true", "false"):
            return name == "true"
        if tokens.accept("("):
            return Call(name, tuple(self._expressions(")")))
        if not tokens.accept("["):
            return name
        index = tokens.take_int()
        tokens.expect("]")
        array = self.file.arrays.get(name)
        elements = array.elements if array else self.file.parameters.get(name)
        if not isinstance(elements, list) or not 1 <= index <= len(elements):
            raise FlatZincSyntaxError(f"{self.file.where(start)}: there is no element {name}[{index}]")
        return elements[index - 1]
