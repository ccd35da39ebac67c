"""FlatZinc text to `syntax.FlatZinc`: first the tokens (numbers, names, strings and symbols), then the grammar."""

from __future__ import annotations

import json
import re

from moccasin_mzn.solvers.flatzinc.syntax import (
    HIGHEST,
    LOWEST,
    Call,
    Constraint,
    Expression,
    FlatZinc,
    FlatZincSyntaxError,
    FloatSet,
    IntSet,
    Solve,
    Text,
    UnsupportedError,
    Variable,
    VariableArray,
    describe,
    names_in,
)

# --- A fast path for the items that make up almost all of a large file ----------------------------------------


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


# --- Tokens ---------------------------------------------------------------------------------------------------


_TOKEN = re.compile(
    r"""(?:\s+|%[^\n]*)*+
    (?: (?P<float>-?\d+(?:\.\d+(?:[eE][-+]?\d+)?|[eE][-+]?\d+))
      | (?P<int>-?(?:0x[0-9a-fA-F]+|0o[0-7]+|\d+))(?![A-Za-z_0-9])
      | (?P<name>[A-Za-z_][A-Za-z0-9_]*)
      | (?P<string>"[^"\\\n]*+(?:\\.[^"\\\n]*+)*+")
      | (?P<symbol>\.\.|::|[][(){},:;=])
      | (?P<end>\Z)
    )""",
    re.VERBOSE | re.ASCII,
)
_BLANKS = re.compile(r"(?:\s+|%[^\n]*)*+", re.ASCII)
_ESCAPES = {"n": "\n", "t": "\t"}
LONG = 40
"""How many characters of a token a message quotes."""


def skip_blanks(text: str, position: int) -> int:
    """The offset of the first character at or after `position` that is neither blank nor in a comment."""
    blanks = _BLANKS.match(text, position)
    assert blanks is not None  # none at all match too
    return blanks.end()


class Tokens:
    """A reading head over the text of a file: `kind`, `text` and `start` describe the token under it.

    Kinds are float, int, name, string, symbol and end.
    """

    def __init__(self, file: FlatZinc) -> None:
        self.file = file
        self.kind = self.text = ""
        self.start = self.stop = 0

    def seek(self, position: int) -> None:
        """Put the head on the first token at or after `position`."""
        self.stop = position
        self.advance()

    def advance(self) -> None:
        """Move to the next token."""
        match = _TOKEN.match(self.file.text, self.stop)
        if match is None:
            self.start = skip_blanks(self.file.text, self.stop)
            raise self.error(f"unexpected character {self.file.text[self.start]!r}")
        self.kind = match.lastgroup or ""
        self.text = match.group(self.kind)
        self.start, self.stop = match.span(self.kind)

    def error(self, message: str) -> FlatZincSyntaxError:
        """An error that names the place of the current token."""
        return FlatZincSyntaxError(f"{self.file.where(self.start)}: {message}")

    def unexpected(self, wanted: str) -> FlatZincSyntaxError:
        """The error "WANTED expected, found ..."."""
        found = "end of file" if self.kind == "end" else repr(self.text[:LONG])
        return self.error(f"{wanted} expected, found {found}")

    def at(self, text: str) -> bool:
        """Is the current token this symbol or keyword?"""
        return self.text == text and self.kind in ("symbol", "name")

    def accept(self, text: str) -> bool:
        """Step over this symbol or keyword if it comes next."""
        if self.at(text):
            self.advance()
            return True
        return False

    def expect(self, text: str) -> None:
        """Step over this symbol or keyword, or raise."""
        if not self.accept(text):
            raise self.unexpected(repr(text))

    def take_name(self) -> str:
        """Step over an identifier and return it."""
        if self.kind != "name":
            raise self.unexpected("name")
        name = self.text
        self.advance()
        return name

    def take_int(self) -> int:
        """Step over an integer and return it; integers past 64 bits are refused."""
        if self.kind != "int":
            raise self.unexpected("integer")
        digits = self.text.lstrip("-")
        try:
            value = int(digits, {"0x": 16, "0o": 8}.get(digits[:2], 10))
        except ValueError:  # Python reads no more than some thousand decimal digits
            value = HIGHEST + 2  # fits as little as its negative does
        value = -value if self.text.startswith("-") else value
        if not LOWEST <= value <= HIGHEST:
            raise self.error(f"integer {self.text[:LONG]} does not fit in 64 bits")
        self.advance()
        return value

    def take_string(self) -> Text:
        """Step over a string literal and return it without quotes and escapes."""
        content = re.sub(r"\\(.)", lambda match: _ESCAPES.get(match[1], match[1]), self.text[1:-1])
        self.advance()
        return Text(content)


# --- FlatZinc text -> `syntax.FlatZinc` -----------------------------------------------------------------------

# Almost every line of a large file has one of three simple shapes, which `Shortcuts` reads. All else goes through the
# grammar below, token by token, and so does a line that a shortcut cannot read: errors are only ever reported by the
# grammar.


MAX_DEPTH = 100
"""How deep arrays and annotations may be nested."""
MAX_LENGTH = 10_000_000
"""How many variables an array without a literal may declare."""
_JSON = re.compile(r"\ufeff?\s*\{\s*\"")
"""Start of an object of JSON; no file of FlatZinc starts so."""
_PARAMETER_TYPES = {"bool": (bool,), "int": (int,), "float": (float, int), "set": (IntSet, FloatSet)}


def parse(text: str, source: str = "FlatZinc") -> FlatZinc:
    """Read a whole file; `source` is its name in error messages.

    Raises `FlatZincSyntaxError` with file, line and column, and `UnsupportedError` for set variables and for JSON.
    """
    if _JSON.match(text):
        raise UnsupportedError(f"{source}: FlatZinc in JSON is not read yet: have MiniZinc write it as text, FILE.fzn")
    file = FlatZinc(source, text)
    grammar = _Grammar(file)
    position, end = 0, len(text)
    shortcuts = Shortcuts(file)
    while position < end:
        position = shortcuts.item(position) or grammar.item(position)
    if not file.solve.goal:
        raise FlatZincSyntaxError(f"{file.where(end)}: there is no solve item")
    return file


class _Grammar(Tokens):
    """The full grammar, by recursive descent over tokens; every `_` method leaves the head behind what it read."""

    def __init__(self, file: FlatZinc) -> None:
        super().__init__(file)
        self.position = 0
        self.depth = 0

    def item(self, position: int) -> int:
        """Read the item at `position` and return the offset of the next one."""
        self.seek(position)
        if self.kind == "end":
            return len(self.file.text)
        self.position = self.start
        readers = {
            "predicate": self._predicate,
            "constraint": self._constraint,
            "solve": self._solve,
            "var": self._variable,
            "array": self._array,
        }
        reader = readers.get(self.text, self._parameter) if self.kind == "name" else self._parameter
        reader()
        if not self.at(";"):
            raise self.unexpected("';'")
        return skip_blanks(self.file.text, self.stop)

    def _predicate(self) -> None:
        while not self.at(";"):
            if self.kind == "end":
                raise self.unexpected("';'")
            self.advance()

    def _constraint(self) -> None:
        self.advance()
        name = self.take_name()
        self.expect("(")
        arguments = self._expressions(")")
        self._annotations()
        self.file.constraints.append(Constraint(name, arguments, self.position))

    def _solve(self) -> None:
        if self.file.solve.goal:
            raise self.error("there is a second solve item")
        self.advance()
        annotations = self._annotations()
        if self.text not in ("satisfy", "minimize", "maximize"):
            raise self.unexpected("satisfy, minimize or maximize")
        goal = self.take_name()
        objective = None if goal == "satisfy" else self._expression()
        self.file.solve = Solve(goal, objective, annotations, self.position)

    def _variable(self) -> None:
        self.advance()
        kind, domain = self._variable_type()
        self.expect(":")
        name = self._new_name()
        is_output = "output_var" in names_in(self._annotations())
        value = self._expression() if self.accept("=") else None
        self.file.variables[name] = Variable(name, kind == "bool", domain, is_output, value, kind == "float")

    def _array(self) -> None:
        self.advance()
        length = self._length()
        self.expect("of")
        if self.accept("var"):
            # An array without elements may be of any type.
            kind, domain = self._variable_type() if length else (self._parameter_type(), None)
            self.expect(":")
            name = self._new_name()
            output = self._output_sets(self._annotations())
            elements = self._elements(name, length) if self.at("=") else self._own_variables(name, length, kind, domain)
            self.file.arrays[name] = VariableArray(name, kind == "bool", elements, output, kind == "float")
        else:
            kind = self._parameter_type()
            self.expect(":")
            name = self._new_name()
            self._annotations()
            self.file.parameters[name] = self._elements(name, length, kind)

    def _elements(self, name: str, length: int, kind: str | None = None) -> list[Expression]:
        """The right-hand side of an array; `kind` is the type of a parameter's elements."""
        self.expect("=")
        start, elements = self.start, self._expression()
        if type(elements) is not list:
            raise self._error(start, "array literal expected")
        if len(elements) != length:
            raise self._error(start, f"{name} has {length} elements, but {len(elements)} are given")
        return elements if kind is None else [self._parameter_value(kind, element, start) for element in elements]

    def _own_variables(self, array: str, length: int, kind: str, domain: IntSet | FloatSet | None) -> list[str]:
        """The variables of an array that is declared without a literal, as in FlatZinc before MiniZinc 2."""
        if length > MAX_LENGTH:
            raise self._error(self.position, f"an array of more than {MAX_LENGTH} variables")
        names = [f"{array}[{index}]" for index in range(1, length + 1)]
        for name in names:
            self.file.variables[name] = Variable(name, kind == "bool", domain, False, None, kind == "float")
            self.file.positions[name] = self.position
        return names

    def _length(self) -> int:
        """The size of the index set `[low..high]`."""
        self.expect("[")
        low = self.take_int()
        self.expect("..")
        high = self.take_int()
        self.expect("]")
        return max(high - low + 1, 0)

    def _output_sets(self, annotations: tuple[Expression, ...]) -> tuple[IntSet, ...] | None:
        for item in annotations:
            if isinstance(item, Call) and item.name == "output_array":
                sets = item.arguments[0] if item.arguments else None
                if type(sets) is not list or not all(isinstance(index, IntSet) for index in sets):
                    raise self._error(self.position, "output_array needs a list of index sets")
                return tuple(sets)
        return None

    def _parameter(self) -> None:
        if self.kind not in ("name", "int", "float") and not self.at("{"):
            raise self.unexpected("an item")
        kind = self._parameter_type()
        self.expect(":")
        name = self._new_name()
        self._annotations()
        self.expect("=")
        start = self.start
        self.file.parameters[name] = self._parameter_value(kind, self._expression(), start)

    def _new_name(self) -> str:
        """The name that the item declares."""
        name = self.text
        if name in ("true", "false"):
            raise self.unexpected("name")
        if name in self.file.positions:
            raise self.error(f"{name} is declared twice")
        self.file.positions[name] = self.position
        return self.take_name()

    def _parameter_value(self, kind: str, value: Expression, start: int) -> Expression:
        """The value of a parameter, given as a literal or by the name of one declared before."""
        if type(value) is str and value in self.file.parameters:
            value = self.file.parameters[value]
        if type(value) not in _PARAMETER_TYPES[kind]:
            raise self._error(start, f"a constant of type {kind} expected, found {describe(value)}")
        return value

    def _variable_type(self) -> tuple[str, IntSet | FloatSet | None]:
        """(bool, int or float; domain)"""
        start = self.start
        if self.accept("bool"):
            return "bool", None
        if self.accept("int"):
            return "int", None
        if self.at("set"):
            raise self._unsupported(start, "set")
        if self.accept("float"):
            return "float", None
        is_list, domain = self.at("{"), self._expression()
        if isinstance(domain, (float, FloatSet)):
            if is_list or isinstance(domain, float):
                raise self._unsupported(start, "float of listed values")
            return "float", domain
        if not isinstance(domain, IntSet):
            raise self._error(start, "type expected")
        return "int", domain

    def _parameter_type(self) -> str:
        """Step over the type of a parameter: bool, int, float or set."""
        start = self.start
        is_set = self.accept("set")
        if is_set:
            self.expect("of")
        for name in ("bool", "int", "float"):
            if self.accept(name):
                return "set" if is_set else name
        if self.kind == "name":
            raise self.unexpected("type" if is_set or start != self.position else "an item")
        domain = self._expression()
        if not isinstance(domain, (IntSet, FloatSet)):
            raise self._error(start, "type expected")
        return "set" if is_set else "int" if isinstance(domain, IntSet) else "float"

    def _annotations(self) -> tuple[Expression, ...]:
        annotations = []
        while self.accept("::"):
            if self.kind != "name":
                raise self.unexpected("annotation")
            annotations.append(self._expression())
        return tuple(annotations)

    def _expressions(self, closing: str) -> list[Expression]:
        """A comma-separated list up to and with `closing`."""
        values = []
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise self.error(f"nested more than {MAX_DEPTH} deep")
        while not self.at(closing):
            values.append(self._expression())
            if not self.accept(","):
                break
        self.expect(closing)
        self.depth -= 1
        return values

    def _expression(self) -> Expression:
        if self.kind == "int":
            low = self.take_int()
            return IntSet.of_range(low, self.take_int()) if self.accept("..") else low
        if self.kind == "float":
            return self._float()
        if self.kind == "string":
            return self.take_string()
        if self.accept("["):
            return self._expressions("]")
        if self.at("{"):
            return self._set()
        if self.kind == "name":
            return self._named()
        raise self.unexpected("expression")

    def _float(self) -> Expression:
        value = float(self.text)
        self.advance()
        if not self.accept(".."):
            return value
        if self.kind == "int":
            return FloatSet(value, float(self.take_int()))
        if self.kind != "float":
            raise self.unexpected("float")
        high = float(self.text)
        self.advance()
        return FloatSet(value, high)

    def _set(self) -> Expression:
        start = self.start
        self.advance()
        types = set(map(type, values := self._expressions("}")))
        if types <= {int}:
            return IntSet.of_values(values)
        if types <= {int, float}:
            return FloatSet(min(values), max(values))
        raise self._error(start, "a set of integers expected")

    def _named(self) -> Expression:
        """true, false, an identifier, a call, or one element of an array declared before."""
        start = self.start
        name = self.take_name()
        if name in ("true", "false"):
            return name == "true"
        if self.accept("("):
            return Call(name, tuple(self._expressions(")")))
        if not self.accept("["):
            return name
        index = self.take_int()
        self.expect("]")
        array = self.file.arrays.get(name)
        elements = array.elements if array else self.file.parameters.get(name)
        if type(elements) is not list or not 1 <= index <= len(elements):
            raise self._error(start, f"there is no element {name}[{index}]")
        return elements[index - 1]

    def _error(self, position: int, message: str) -> FlatZincSyntaxError:
        return FlatZincSyntaxError(f"{self.file.where(position)}: {message}")

    def _unsupported(self, position: int, kind: str) -> UnsupportedError:
        return UnsupportedError(f"{self.file.where(position)}: var {kind} is not supported")
