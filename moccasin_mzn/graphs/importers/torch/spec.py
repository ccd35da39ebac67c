"""The description of a network on a command line: where its factory is, and what its inputs look like."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import linecache
import os
import re
import sys
import sysconfig
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import dropwhile
from pathlib import Path
from types import FrameType, ModuleType
from typing import TYPE_CHECKING

from moccasin_mzn.base.doc_links import Page
from moccasin_mzn.base.errors import InputError, shown

if TYPE_CHECKING:
    import torch
    from torch import nn
    from torch.utils._pytree import PyTree


DTYPES = (
    "float32", "float64", "float16", "bfloat16", "complex64", "complex128", "int64", "int32", "int16", "int8", "uint8",
    "bool",
)  # fmt: skip
"""Data types an input may have, by PyTorch's names; the first is the default."""
DIMENSION_LIMIT = 2**40
_MESSAGE_CHARACTERS = 300
_PACKAGE = Path(__file__).parents[3]
_INPUT = re.compile(r"(?:(?P<name>[^\W\d]\w*)=)?(?P<shape>[0-9]+(?:x[0-9]+)*)(?::(?P<dtype>[a-z0-9]+))?")
_EXPECTED = "expected 8x3x224x224, 8x128:int64 or NAME=8x128:int64"


@dataclass(frozen=True)
class Input:
    """One tensor the network is called with."""

    shape: tuple[int, ...]
    dtype: str = DTYPES[0]
    name: str | None = None
    """Name of the keyword argument; None: it is positional."""

    @classmethod
    def parse(cls, text: str) -> Input:
        """Read `[NAME=]8x3x224x224[:dtype]`.

        Raises:
            InputError: it is not one, a dimension is 0 or over 2**40, or the type is not one of `DTYPES`.
        """
        form = _INPUT.fullmatch(text) if isinstance(text, str) else None
        if form is None:
            raise InputError(f"input {shown(text)}: {_EXPECTED}")
        digits = form["shape"].split("x")
        if any(len(number) > len(str(DIMENSION_LIMIT)) for number in digits):
            raise InputError(f"input {shown(text)}: a dimension is over {DIMENSION_LIMIT}")
        shape = tuple(map(int, digits))
        if not all(1 <= extent <= DIMENSION_LIMIT for extent in shape):
            raise InputError(f"input {shown(text)}: dimensions are integers from 1 to {DIMENSION_LIMIT}")
        dtype = form["dtype"] or DTYPES[0]
        if dtype not in DTYPES:
            raise InputError(f"input {shown(text)}: unknown type {dtype}, expected one of {', '.join(DTYPES)}")
        return cls(shape, dtype, form["name"])

    def __str__(self) -> str:
        prefix = f"{self.name}=" if self.name else ""
        suffix = f":{self.dtype}" if self.dtype != DTYPES[0] else ""
        return f"{prefix}{'x'.join(map(str, self.shape))}{suffix}"


def parse_inputs(texts: Sequence[str]) -> tuple[Input, ...]:
    """Read all inputs; those with a name may stand anywhere.

    Raises:
        InputError: nonsense in one of them, or a name given twice.
    """
    if isinstance(texts, str):
        raise InputError(f"inputs are {shown(texts)}, expected a sequence of texts, one for each input")
    inputs = tuple(Input.parse(text) for text in texts)
    names = [each.name for each in inputs if each.name is not None]
    for name in names:
        if names.count(name) > 1:
            raise InputError(f"input {name} is given twice")
    return inputs


def load_network(spec: str) -> torch.nn.Module:
    """Import the module that `spec` names and call its factory. THIS RUNS THE MODULE'S CODE.

    Args:
        spec: `module:factory` or `path/to/file.py:factory`; the factory may have dots (`zoo.resnet18`). It is called
            without arguments and returns a `torch.nn.Module`.

    Raises:
        InputError: no such form; whatever the module or its factory raises (but an interrupt from the keyboard); the
            factory is not callable, or what it returns is no `torch.nn.Module`.
    """
    from torch import nn

    with users_code(spec):
        network = _function("network", spec, "factory", "a function that returns a torch.nn.Module")()
    if not isinstance(network, nn.Module):
        raise InputError(f"{spec} returned {shown(network)}, expected a torch.nn.Module")
    return network


def load_loss(spec: str) -> Callable[[PyTree, PyTree], PyTree]:
    """A loss, called with the network's outputs and a target. THIS RUNS THE MODULE'S CODE.

    Args:
        spec: `module:function` or `path/to/file.py:function`, or the name of one in `torch.nn.functional`.

    Raises:
        InputError: see `load_network`.
    """
    from torch.nn import functional

    if spec.isidentifier():
        loss = getattr(functional, spec, None)
        if not callable(loss):
            raise InputError(f"loss {shown(spec)}: no function of torch.nn.functional, else expected module:function")
        return loss
    with users_code(spec):
        return _function("loss", spec, "function", "a function of outputs and a target")


def _function(what: str, spec: str, name: str, expected: str) -> Callable[..., PyTree]:
    place, colon, function = spec.rpartition(":") if isinstance(spec, str) else ("", "", "")
    names = function.split(".")
    if not colon or not place or not all(name.isidentifier() for name in names):
        message = f"{what} {shown(spec)}: expected module:{name} or path/to/file.py:{name}"
        raise InputError(Page.PYTORCH.after(message))
    found: object = _module_in_file(Path(place)) if place.endswith(".py") else importlib.import_module(place)
    for each in names:
        found = getattr(found, each)
    if not callable(found):
        raise InputError(f"{spec} is {shown(found)}, expected {expected}")
    return found


@contextlib.contextmanager
def users_code(where: str) -> Iterator[None]:
    """While code of the user's runs: its output goes to stderr, and whatever it raises becomes one line.

    The current directory is on the path, as it is for `python -m`. An interrupt from the keyboard goes through.
    """
    here = ""  # on Python's path, the current directory, whatever it is
    sys.path.insert(0, here)
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield
    except InputError:
        raise
    except (Exception, SystemExit) as error:
        raise InputError(f"{where}: {type(error).__name__}: {one_line(error)}") from error
    finally:
        if here in sys.path:
            sys.path.remove(here)


def place(spec: str, inputs: Iterable[str]) -> str:
    """A network and its inputs, as messages name them."""
    return f"{spec} on {', '.join(inputs) or 'no input'}"


def one_line(error: BaseException) -> str:
    """The first line of an exception's message that is not empty, at most 300 characters of it."""
    lines = [" ".join(line.split()) for line in str(error).splitlines()]
    text = next(filter(None, lines), "no message")
    text = "".join(character if character.isprintable() else "?" for character in text)
    return text if len(text) <= _MESSAGE_CHARACTERS else f"{text[: _MESSAGE_CHARACTERS - 4]} ..."


def line_of(error: BaseException, network: nn.Module) -> str:
    """The user's line that an exception comes from, see `user_line`."""
    return user_line(traceback.walk_tb(error.__traceback__), network)


def line_here(network: nn.Module, frame: FrameType | None = None) -> str:
    """The user's line that is running, in a call or in the calls around it, see `user_line`."""
    return user_line(reversed([*traceback.walk_stack(frame or sys._getframe())]), network)


def user_line(frames: Iterable[tuple[FrameType, int]], network: nn.Module) -> str:
    """The line of a network among calls, as "file.py:7, in module 'encoder.0', `if x.sum() > 0:`"; "" if there is none.

    It is the innermost that is neither PyTorch's, nor Python's, nor ours. Where that calls a module of PyTorch's own
    which is still running, or where there is none, that module stands first, as "module 'encoder.1' (BatchNorm1d),
    torch/nn/modules/batchnorm.py:7, `...`".

    Args:
        frames: calls with their line numbers, the innermost last. Those before our first one call us, and are no part
            of the network.
        network: names modules by its submodules.
    """
    from torch import nn

    names = {id(module): name for name, module in network.named_modules()}
    line, holder, module = "", None, ""
    for frame, number in dropwhile(lambda each: not _is_ours(each[0].f_code.co_filename), frames):
        file, code = frame.f_code.co_filename, frame.f_code
        own = frame.f_locals.get(next(iter(code.co_varnames[: code.co_argcount]), ""))  # as a rule `self`
        own = own if isinstance(own, nn.Module) and id(own) in names else None
        if os.path.isfile(file) and not is_foreign(Path(file)):
            holder, module = holder if own is None else own, ""
            name = "" if holder is None or not names[id(holder)] else f", in module '{names[id(holder)]}'"
            line = _line_text(file, number, name)
        elif own is not None and not _is_ours(file):
            name = names[id(own)]
            called = f"module '{name}'" if name else "the network"
            is_any = file == nn.modules.module.__file__  # whose lines call modules of every kind
            place = "" if is_any else f", {_line_text(file, number)}"
            module = f"{called} ({type(own).__name__}){place}"
    return ", called at ".join(filter(None, (module, line)))


def _line_text(file: str, number: int, module: str = "") -> str:
    code = linecache.getline(file, number).strip()
    return f"{_short(file)}:{number}{module}" + (f", `{code}`" if code else "")


def _is_ours(file: str) -> bool:
    return Path(file).is_relative_to(_PACKAGE)


def is_foreign(file: Path) -> bool:
    """True for a file of PyTorch, of Python's own library, or of this package."""
    import torch

    if file.is_relative_to(Path(traceback.__file__).parent) and "site-packages" not in file.parts:
        return True
    return any(file.is_relative_to(place) for place in (Path(torch.__file__).parent, _PACKAGE))


def _short(file: str) -> str:
    """A file as people call it: below the current folder, or from the package of a library on."""
    packages = [place for place in map(sysconfig.get_path, ("purelib", "platlib")) if Path(file).is_relative_to(place)]
    near = [place for place in (os.getcwd(), *packages) if Path(file).is_relative_to(place)]
    return os.path.relpath(file, near[-1]) if near else file


def _module_in_file(path: Path) -> ModuleType:
    """Run a file as a module; the modules next to it can be imported by it, as when Python is given the file."""
    name = f"moccasin_network_{path.stem}"  # not the bare stem, which may be the name of a module in use
    form = importlib.util.spec_from_file_location(name, path)
    assert form is not None and form.loader is not None  # as it ends in .py
    module = importlib.util.module_from_spec(form)
    sys.modules[name] = module  # dataclasses in it look their module up
    folder = str(path.resolve().parent)
    sys.path.insert(0, folder)
    try:
        form.loader.exec_module(module)
    except BaseException:
        sys.modules.pop(name, None)
        raise
    finally:
        if folder in sys.path:
            sys.path.remove(folder)
    return module
