"""The text of C of a program: its constants, its tables of layers, places and steps, and a test with a Makefile."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.resources import files
from typing import TYPE_CHECKING

from moccasin_mzn.deploy.c.kernels import Array, Kernel, Value
from moccasin_mzn.deploy.c.network import Layer, bytes_of
from moccasin_mzn.deploy.c.program import Program, most_reads
from moccasin_mzn.deploy.c.tensors import SIZES, Tensor

if TYPE_CHECKING:
    from numpy import ndarray

KERNELS = ("kernels.h", "kernels.c")
"""What is the same for all networks."""
_WIDTH = 116
_TYPES = {"INT8": "int8_t", "FLOAT32": "float"}


def sources(program: Program) -> dict[str, str]:
    """By name the files that compute the network."""
    folder = files("moccasin_mzn.deploy.c")
    kernels = {name: folder.joinpath(name).read_text(encoding="utf-8") for name in KERNELS}
    return kernels | {"model.h": _header(program), "model.c": "\n".join(_model(program)) + "\n"}


# --- model.h --------------------------------------------------------------------------------------------------


def _header(program: Program) -> str:
    network = program.network
    about = [_about(name, of) for name, of in (*_named(network.inputs, "input"), *_named(network.outputs, "output"))]
    return "\n".join([
        f"/* {_comment(network.name)}: {len(network.layers)} layers in {len(program.calls)} steps.", "", *about, "*/",
        "#ifndef MODEL_H", "#define MODEL_H", "", "#include <stdint.h>", "",
        "/* Bytes of the arena, a static array: all memory for what is between inputs and outputs. */",
        f"#define MODEL_ARENA {max(1, program.arena)}", "",
        "/* Run the network once. Inputs and outputs belong to the caller. Outputs overlap no inputs, which are read",
        "   after parts of outputs are written, nor each other. Returns 0; or 1 if a pointer is NULL, and",
        "   2 if an output overlaps an input or another output: then nothing is written. */",
        f"{_signature(program)};", "", "#endif /* MODEL_H */", "",
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


def _signature(program: Program) -> str:
    network = program.network
    read = [f"const {_TYPES[of.kind]} *{name}" for name, of in _named(network.inputs, "input")]
    written = [f"{_TYPES[of.kind]} *{name}" for name, of in _named(network.outputs, "output")]
    return f"int model_invoke({', '.join((*read, *written))})"


# --- model.c --------------------------------------------------------------------------------------------------


def _model(program: Program) -> Iterator[str]:
    yield from ('#include "model.h"', "", "#include <stddef.h>", "", '#include "kernels.h"', "")
    power = program.alignment & -program.alignment
    if power > 1:  # C99 has no word for it
        yield from ("#ifdef __GNUC__", f"__attribute__((aligned({power})))", "#endif")
    yield "static uint8_t arena[MODEL_ARENA];"
    for layer in _layers(program):
        yield from _parameters(layer)
    for at, tensor in enumerate(program.constants):
        assert tensor.values is not None
        yield from _array(Array(f"constant_{at}", _TYPES[tensor.kind], tensor.values.ravel().tolist()))
    yield from _tables(program)
    yield from _invoke(program)


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


def _invoke(program: Program) -> Iterator[str]:
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
        "", f"{_signature(program)}", "{",
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


def test_program(program: Program, sets: Sequence[tuple[Sequence[ndarray], Sequence[ndarray]]]) -> str:
    """A program that runs the network on inputs and compares what it puts out.

    Args:
        sets: inputs, and the outputs that are expected.
    """
    network, lines = program.network, ['#include "model.h"', "", "#include <stdio.h>", "#include <string.h>", ""]
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
        "    for (at = 0; at < count; at++) {", f"        int bad = model_invoke({', '.join(calls)}) != 0;",
    ]  # fmt: skip
    for name, _ in written:
        lines.append(f"        bad |= memcmp({name}, expected_{name} + at * {sizes[name]}, sizeof {name}) != 0;")
    lines += ["        wrong += bad;", "    }",
              '    printf("%d of %d outputs are equal, arena %d bytes\\n", count - wrong, count, MODEL_ARENA);',
              "    return wrong != 0;", "}", ""]  # fmt: skip
    return "\n".join(lines)


MAKEFILE = """\
# make: builds the test and runs it. make size: code, constants and static memory. make stack: stack of each function.
# CC and CFLAGS are the compiler's, SIZE is the tool that reads its object files.
CC ?= cc
CFLAGS ?= -O2
SIZE ?= size
STRICT := -std=c99 -Wall -Wextra -Wconversion -Werror -pedantic
SMALL := -ffunction-sections -fdata-sections
COMPILE = $(CC) $(STRICT) $(SMALL) $(CFLAGS)

check: test
	./test

test: test.o model.o kernels.o
	$(CC) $(CFLAGS) -Wl,--gc-sections -o $@ test.o model.o kernels.o -lm

%.o: %.c model.h kernels.h compiled_with
	$(COMPILE) -c -o $@ $<

size: model.o kernels.o
	$(SIZE) model.o kernels.o

stack: stack_model.o stack_kernels.o
	cat stack_model.su stack_kernels.su

stack_%.o: %.c model.h kernels.h compiled_with
	$(COMPILE) -fstack-usage -c -o $@ $<

# Changes when compiler or options do, so that objects of others are not used.
compiled_with: FORCE
	@echo '$(subst ','\\'',$(COMPILE))' | cmp -s - $@ || echo '$(subst ','\\'',$(COMPILE))' > $@

clean:
	rm -f *.o *.su test compiled_with

FORCE:
.PHONY: check size stack clean FORCE
"""
"""What builds the files in a folder."""
