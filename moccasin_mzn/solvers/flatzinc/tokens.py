"""The words of FlatZinc: numbers, names, strings and symbols."""

from __future__ import annotations

import re

from moccasin_mzn.solvers.flatzinc.intset import HIGHEST, LOWEST
from moccasin_mzn.solvers.flatzinc.syntax import FlatZinc, FlatZincSyntaxError, Text

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
