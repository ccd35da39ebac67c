"""The one exception for bad input, and how values are shown in its message."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import ClassVar

from moccasin_mzn.base.doc_links import Page
from moccasin_mzn.base.extras import install_command

_SHOWN_CHARACTERS = 60
_SHOWN_BITS = 256
_SIGNS_OF_LACK = (
    "can't start new thread", "failed to map", "load shared object", "Cannot allocate memory",
    "error return without exception set", "returned NULL without setting an exception",
)  # fmt: skip
"""Parts of messages of exceptions that mean that a limit of memory or of threads was met; also by imports, as libraries
are mapped."""


class InputError(ValueError):
    """Bad input. The message is one clear line that states what is wrong and where.

    The command line prints the message and exits with status 2.
    """

    kind: ClassVar[str] = "input"
    """The kind of error, for programs."""

    def as_dict(self) -> dict[str, str]:
        """Return the object that `--json` and `--json-stream` print."""
        return {"type": "error", "kind": self.kind, "message": " ".join(str(self).split())}


class OutOfMemoryError(InputError):
    """There was not enough memory, or no room for a thread; the message states how much was requested, if known."""

    kind = "memory"


class NotApplicableError(InputError):
    """The strategy is for other graphs; the message states for which, and names what is different here."""

    kind = "not-applicable"


class JudgeError(InputError):
    """The simulator contradicts a solver: an error of a model or of the solver, never an answer."""

    kind = "judge"


class RefutedError(JudgeError):
    """A schedule that the simulator accepts refutes a proof."""

    kind = "refuted"

    def __init__(self, claim: str, accepted: str) -> None:
        super().__init__(f"{claim}, but the simulator accepts {accepted}")


def out_of_memory(error: BaseException) -> OutOfMemoryError | None:
    """An exception as lack of memory, if it is that, in whatever form it comes."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    why = lines[-1].removeprefix("Original error was: ") if lines else ""
    if not isinstance(error, MemoryError) and not any(sign in str(error) for sign in _SIGNS_OF_LACK):
        return None
    limit = address_space()
    allowed = "" if limit is None else f" (ulimit -v: {limit // 2**20:,} MiB)"
    return OutOfMemoryError(f"out of memory{allowed}" + (f": {why}" if why else ""))


def address_space() -> int | None:
    """The bytes that this process may map, as set by `ulimit -v`; None: any number."""
    try:
        import resource
    except ImportError:  # not on Windows
        return None
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    return None if limit == resource.RLIM_INFINITY else limit


def require_address_space(what: str, need: int) -> None:
    """Refuse a limit with which libraries end the process wherever they stand.

    Raises:
        OutOfMemoryError: this process may not map `need` bytes.
    """
    limit = address_space()
    if limit is not None and limit < need:
        raise OutOfMemoryError(
            Page.INSTALL.after(
                f"out of memory: {what} needs {need // 2**20} MiB of address space, "
                f"ulimit -v allows {limit // 2**20} MiB"
            )
        )


def missing(package: str, extra: str, what: str = "") -> InputError:
    """Make the error for a missing package that comes with an extra of this one; `what` needs it."""
    lacking = f"{what} needs {package}" if what else f"{package} is missing"
    return InputError(Page.INSTALL.after(f"{lacking}: {install_command(extra)}"))


def require(extra: str, *packages: str) -> None:
    """Refuse what needs packages of an extra before it begins.

    Raises:
        InputError: one is not installed.
    """
    for package in packages:
        if find_spec(package) is None:
            raise missing(package, extra)


@contextmanager
def located(where: object) -> Iterator[None]:
    """Put before the message of every `InputError` where it was: in a file, a line, an entry."""
    try:
        yield
    except InputError as error:
        place = str(where)
        raise InputError(f"{place if place.isprintable() else shown(place)}: {error}") from None


@contextmanager
def explained(page: Page | None) -> Iterator[None]:
    """Append to the message of every `InputError` the page that explains it, unless it names one; None: no page."""
    try:
        yield
    except InputError as error:
        if page is not None:
            error.args = (page.after(str(error)),)
        raise


def some_of(names: Iterable[object], most: int = 5) -> str:
    """The first of many names, for use in a message."""
    names = list(names)
    return ", ".join(map(str, names[:most])) + (", ..." if len(names) > most else "")


def shown(value: object) -> str:
    """`value` as a short piece of one line, for use in a message."""
    if isinstance(value, int) and value.bit_length() > _SHOWN_BITS:
        return f"an integer of {value.bit_length()} bits"  # repr refuses integers of many digits
    text = " ".join(repr(value).split())
    if len(text) > _SHOWN_CHARACTERS:
        text = f"{text[: _SHOWN_CHARACTERS - 4]} ..."
    return text
