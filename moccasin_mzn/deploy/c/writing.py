"""The text of C of a program: its constants, its tables of layers, places and steps, and a test with a Makefile."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING
from zlib import crc32

from moccasin_mzn.base.errors import InputError, shown
from moccasin_mzn.deploy.c.kernels import Array, Kernel, Value
from moccasin_mzn.deploy.c.network import Layer, bytes_of
from moccasin_mzn.deploy.c.program import Program, most_reads
from moccasin_mzn.deploy.c.tensors import SIZES, Tensor

if TYPE_CHECKING:
    from numpy import ndarray

PREFIX = "model"
"""The prefix of names by default."""
KERNELS = ("kernels.h", "kernels.c")
"""What is the same for all networks."""
_IDENTIFIER = re.compile(r"[A-Za-z][A-Za-z0-9_]*", re.ASCII)
_WIDTH = 116
_TYPES = {"INT8": "int8_t", "FLOAT32": "float"}


def sources(program: Program, prefix: str = PREFIX) -> dict[str, str]:
    """By name the files that compute the network.

    Args:
        prefix: of the names of its files and of what they declare.

    Raises:
        InputError: the prefix is no identifier, or names another file of the folder.
    """
    check_prefix(prefix)
    own = {f"{prefix}.h": _header(program, prefix), f"{prefix}.c": "\n".join(_model(program, prefix)) + "\n"}
    return kernel_texts() | own


def check_prefix(prefix: str) -> None:
    """Refuse what names cannot begin with.

    Raises:
        InputError: the prefix is no identifier, or names another file of the folder.
    """
    if not _IDENTIFIER.fullmatch(prefix) or prefix in ("kernels", "test"):
        raise InputError(
            f"prefix {shown(prefix)}: expected letters, digits and underscores, a letter first, and not kernels or test"
        )


@cache
def kernel_texts() -> dict[str, str]:
    """By name the files of the kernels, the same for all networks: a program of several networks has them once.

    Models call `mc_run` by a name with a checksum, so that none is linked with kernels of another version.
    """
    folder = files("moccasin_mzn.deploy.c")
    texts = {name: folder.joinpath(name).read_text(encoding="utf-8") for name in KERNELS}
    checksum = crc32("".join(texts.values()).encode())
    lines = (
        "#include <stdint.h>", "", "/* Networks run in kernels of the version that they were written for. */",
        f"#define mc_run mc_run_{checksum:08x}",
    )  # fmt: skip
    texts["kernels.h"] = texts["kernels.h"].replace(lines[0], "\n".join(lines), 1)
    return texts


# --- model.h --------------------------------------------------------------------------------------------------


def _header(program: Program, prefix: str) -> str:
    network, guard = program.network, f"{prefix.upper()}_H"
    about = [_about(name, of) for name, of in (*_named(network.inputs, "input"), *_named(network.outputs, "output"))]
    return "\n".join([
        f"/* {_comment(network.name)}: {len(network.layers)} layers in {len(program.calls)} steps.", "", *about, "*/",
        f"#ifndef {guard}", f"#define {guard}", "", "#include <stdint.h>", "",
        "/* Bytes of the arena, a static array: all memory for what is between inputs and outputs. */",
        f"#define {prefix.upper()}_ARENA {max(1, program.arena)}", "",
        "/* Run the network once. Inputs and outputs belong to the caller. Outputs overlap no inputs, which are read",
        "   after parts of outputs are written, nor each other. Returns 0; or 1 if a pointer is NULL, and",
        "   2 if an output overlaps an input or another output: then nothing is written. */",
        f"{_signature(program, prefix)};", "", f"#endif /* {guard} */", "",
    ])  # fmt: skip


def _about(name: str, tensor: Tensor) -> str:
    scale = f", scale {tensor.scales[0]!r}, zero point {tensor.zero}" if len(tensor.scales) == 1 else ""
    return f"   {name}: {_comment(tensor.name)}, {_TYPES[tensor.kind]} {list(tensor.shape)}{scale}"


def _comment(text: str) -> str:
    """Text that does not end a comment, nor begin one."""
    plain = "".join(letter if 32 <= ord(letter) < 127 else "?" for letter in text)
    return plain.replace("\\", "/").replace("??/", "?? /").replace("*/", "* /").replace("/*", "/ *")


def _named(tensors: Sequence[Tensor], word: str) -> list[tuple[str, Tensor]]:
    if len(tensors) == 1:
        return [(word, tensors[0])]
    return [(f"{word}_{at}", tensor) for at, tensor in enumerate(tensors)]


def _signature(program: Program, prefix: str) -> str:
    network = program.network
    read = [f"const {_TYPES[of.kind]} *{name}" for name, of in _named(network.inputs, "input")]
    written = [f"{_TYPES[of.kind]} *{name}" for name, of in _named(network.outputs, "output")]
    return f"int {prefix}_invoke({', '.join((*read, *written))})"


# --- model.c --------------------------------------------------------------------------------------------------


def _model(program: Program, prefix: str) -> Iterator[str]:
    yield from (f'#include "{prefix}.h"', "", "#include <stddef.h>", "", '#include "kernels.h"', "")
    power = program.alignment & -program.alignment
    if power > 1:  # C99 has no word for it
        yield from ("#ifdef __GNUC__", f"__attribute__((aligned({power})))", "#endif")
    yield f"static uint8_t arena[{prefix.upper()}_ARENA];"
    for layer in _layers(program):
        yield from _parameters(layer)
    for at, tensor in enumerate(program.constants):
        assert tensor.values is not None
        yield from _array(Array(f"constant_{at}", _TYPES[tensor.kind], tensor.values.ravel().tolist()))
    yield from _tables(program)
    yield from _invoke(program, prefix)


def _layers(program: Program) -> list[Layer]:
    """The layers, by their number in C."""
    used = {call.layer for call in program.calls}
    return [layer for node, layer in sorted(program.network.layers.items()) if node in used]


def _parameters(layer: Layer) -> Iterator[str]:
    kernel, prefix = layer.kernel, f"layer_{layer.node}"
    yield from ("", f"/* {layer.node}: {_comment(layer.name)} */")
    if not kernel.structure or kernel.members is None:
        return
    for value in kernel.members.values():
        if isinstance(value, Array):
            yield from _array(Array(f"{prefix}_{value.name}", value.kind, value.values))
    yield f"static const {kernel.structure} {prefix} = {{"
    for name, value in kernel.members.items():
        yield f"    .{name} = {_value(value, prefix)},"
    yield "};"


def _value(value: Value | object, prefix: str) -> str:
    if isinstance(value, Array):
        return f"{prefix}_{value.name}"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f".{name} = {_value(each, prefix)}" for name, each in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "{" + ", ".join(_value(each, prefix) for each in value) + "}"
    return str(value)


def _array(array: Array) -> Iterator[str]:
    texts = (_number(value, array.kind) for value in array.values)
    yield from _lines(f"static const {array.kind} {array.name}[{len(array.values)}]", texts)


def _number(value: object, kind: str) -> str:
    if kind == "float":
        return f"{float(value).hex()}F"  # type: ignore[arg-type]
    return "(-2147483647 - 1)" if kind == "int32_t" and str(value) == "-2147483648" else str(value)


def _lines(declared: str, values: Iterable[str]) -> Iterator[str]:
    yield f"{declared} = {{"
    line, width = ["   "], 3
    for value in values:
        if width + len(value) + 2 > _WIDTH and len(line) > 1:
            yield "".join(line)
            line, width = ["   "], 3
        line.append(f" {value},")
        width += len(value) + 2
    yield "".join(line)
    yield "};"


def _shape_text(tensor: Tensor) -> str:
    images, height, width, channels = tensor.extents
    return f"{{{images * height}, {width}, {channels}, {channels * SIZES[tensor.kind]}}}"


def _tables(program: Program) -> Iterator[str]:
    layers = _layers(program)
    number = {layer.node: at for at, layer in enumerate(layers)}
    shapes: dict[str, int] = {}
    rows = []
    for layer in layers:
        read = [*layer.reads, *(layer.reads[:1] if layer.node in program.chained else ())]
        found = [shapes.setdefault(_shape_text(tensor), len(shapes)) for tensor in read]
        parameters = f"&layer_{layer.node}" if layer.kernel.structure else "NULL"
        rows.append(
            f"{{mc_{layer.kernel.function}, {parameters}, {_shape_text(layer.output)}, {len(found)}, "
            f"{{{', '.join(map(str, found))}}}}}"
        )
    yield ""
    yield from _lines(f"static const mc_shape shapes[{len(shapes)}]", shapes)
    yield from _lines(f"static const mc_layer layers[{len(rows)}]", rows)
    places = (
        f"{{{each.offset}, {each.rows[0]}, {each.rows[1] - each.rows[0]}, {each.columns[0]}, "
        f"{each.columns[1] - each.columns[0]}, {each.pitch}, {each.base}, {each.stage}}}"
        for each in program.places
    )
    yield from _lines(f"static const mc_place places[{len(program.places)}]", places)
    reads: list[int] = []
    steps = []
    for call in program.calls:
        steps.append(f"{{{len(reads)}, {number[call.layer]}, {call.place}}}")
        for places_read in call.reads:
            reads += [len(places_read), *places_read]
    yield from _lines(f"static const uint16_t reads[{len(reads)}]", map(str, reads))
    yield from _lines(f"static const mc_step steps[{len(steps)}]", steps)
    yield f"static const mc_program program = {{layers, shapes, places, reads, steps, {len(steps)}}};"


def _invoke(program: Program, prefix: str) -> Iterator[str]:
    network = program.network
    read = [name for name, _ in _named(network.inputs, "input")]
    written = [name for name, _ in _named(network.outputs, "output")]
    kernels: list[Kernel] = [layer.kernel for layer in _layers(program)]
    constants = [f"constant_{at}" for at in range(len(program.constants))]
    taps = max((kernel.taps for kernel in kernels), default=1) or 1
    given = [f"    from[{1 + at}] = (const uint8_t *){name};" for at, name in enumerate((*written, *read, *constants))]
    overlaps = [f"overlap({a}, {size}, {b}, {other})" for a, size, b, other in _neighbours(program)]
    yield _OVERLAP
    yield from (
        "", _signature(program, prefix), "{",
        f"    const uint8_t *from[{1 + len(given)}];", f"    uint8_t *to[{1 + len(written)}];",
        f"    mc_part parts[{most_reads(program.calls)}];", f"    const int8_t *taps[{taps}];",
        f"    if ({' || '.join(f'{name} == NULL' for name in (*read, *written))}) {{", "        return 1;", "    }",
        f"    if ({(chr(10) + '        || ').join(overlaps)}) {{", "        return 2;", "    }",
        "    from[0] = arena;", *given, "    to[0] = arena;",
        *(f"    to[{1 + at}] = (uint8_t *){name};" for at, name in enumerate(written)),
        "    mc_run(&program, from, to, parts, taps);", "    return 0;", "}",
    )  # fmt: skip


_OVERLAP = """
/* Whether two arrays of that many bytes have a byte in common. */
static int overlap(const void *a, size_t size, const void *b, size_t other)
{
    return (uintptr_t)a < (uintptr_t)b + other && (uintptr_t)b < (uintptr_t)a + size;
}"""


def _neighbours(program: Program) -> Iterator[tuple[str, int, str, int]]:
    """Outputs with each input and each output after it: names, and bytes."""
    network = program.network
    read = [(name, bytes_of(of)) for name, of in _named(network.inputs, "input")]
    written = [(name, bytes_of(of)) for name, of in _named(network.outputs, "output")]
    for at, one in enumerate(written):
        for other in (*read, *written[at + 1 :]):
            yield (*one, *other)


# --- The test -------------------------------------------------------------------------------------------------


def test_program(program: Program, sets: Sequence[tuple[Sequence[ndarray], Sequence[ndarray]]], prefix: str) -> str:
    """A program that runs the network on inputs and compares what it outputs.

    Args:
        sets: inputs, and the outputs that are expected.
        prefix: of the network's names.
    """
    network, lines = program.network, [f'#include "{prefix}.h"', "", "#include <stdio.h>", "#include <string.h>", ""]
    read, written = _named(network.inputs, "input"), _named(network.outputs, "output")
    for word, names, at in (("", read, 0), ("expected_", written, 1)):
        for of, (name, tensor) in enumerate(names):
            kind = _TYPES[tensor.kind]
            numbers = (_number(x, kind) for each in sets for x in each[at][of].ravel().tolist())
            size = bytes_of(tensor) // SIZES[tensor.kind]
            lines += _lines(f"static const {kind} {word}{name}[{len(sets) * size}]", numbers)
    lines += [f"static {_TYPES[of.kind]} {name}[{bytes_of(of) // SIZES[of.kind]}];" for name, of in written]
    sizes = {name: bytes_of(of) // SIZES[of.kind] for name, of in (*read, *written)}
    calls = [*(f"{name} + at * {sizes[name]}" for name, _ in read), *(name for name, _ in written)]
    lines += [
        "", "int main(void)", "{", f"    int at, wrong = 0, count = {len(sets)};",
        "    for (at = 0; at < count; at++) {", f"        int bad = {prefix}_invoke({', '.join(calls)}) != 0;",
    ]  # fmt: skip
    for name, _ in written:
        lines.append(f"        bad |= memcmp({name}, expected_{name} + at * {sizes[name]}, sizeof {name}) != 0;")
    lines += ["        wrong += bad;", "    }",
              '    printf("%d of %d outputs are equal, arena %d bytes\\n", count - wrong, count, '
              f"{prefix.upper()}_ARENA);",
              "    return wrong != 0;", "}", ""]  # fmt: skip
    return "\n".join(lines)


def makefile(prefix: str = PREFIX) -> str:
    """What builds the files in a folder."""
    return _MAKEFILE.replace("@MODEL@", prefix)


_MAKEFILE = r"""# make: builds the test and runs it. make size: code, constants and static memory.
# make stack: stack of each function, and of the deepest calls.
# CC and CFLAGS are the compiler's, SIZE is the tool that reads its object files.
CC ?= cc
CFLAGS ?= -O2
SIZE ?= size
STRICT := -std=c99 -Wall -Wextra -Wconversion -Werror -pedantic
SMALL := -ffunction-sections -fdata-sections
DEEPEST = $$4 ~ /_invoke$$/ {invoke = $$5; next} $$4 ~ /^mc_run/ {run = $$5; next} \
  $$4 ~ /^mc_/ {if ($$5 > kernel) kernel = $$5; next} $$5 > first {second = first; first = $$5; next} \
  $$5 > second {second = $$5} END {printf "at most %d bytes: @MODEL@_invoke, mc_run, a kernel, two helpers\n", \
  invoke + run + kernel + first + second}
COMPILE = $(CC) $(STRICT) $(SMALL) $(CFLAGS)

check: test
	./test

test: test.o @MODEL@.o kernels.o
	$(CC) $(CFLAGS) -Wl,--gc-sections -o $@ test.o @MODEL@.o kernels.o -lm

%.o: %.c @MODEL@.h kernels.h compiled_with
	$(COMPILE) -c -o $@ $<

size: @MODEL@.o kernels.o
	$(SIZE) @MODEL@.o kernels.o

stack: stack_@MODEL@.o stack_kernels.o
	@cat stack_@MODEL@.su stack_kernels.su
	@cat stack_@MODEL@.su stack_kernels.su | awk -F '[:\t]' '$(DEEPEST)'

stack_%.o: %.c @MODEL@.h kernels.h compiled_with
	$(COMPILE) -fstack-usage -c -o $@ $<

# Changes when compiler or options do, so that objects of others are not used.
compiled_with: FORCE
	@echo '$(subst ','\'',$(COMPILE))' | cmp -s - $@ || echo '$(subst ','\'',$(COMPILE))' > $@

clean:
	rm -f *.o *.su test compiled_with

FORCE:
.PHONY: check size stack clean FORCE
"""
