"""Random FlatZinc files over small domains, together with what they mean."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from hypothesis import strategies as st
from semantics import Relation, meaning

from moccasin_mzn.solvers.cpsat.registry import all_handlers

NAMES = sorted(name for name in all_handlers() if meaning(name))
MOST_ASSIGNMENTS = 300

SMALL = st.integers(-4, 7)
SETS = st.frozensets(SMALL, max_size=5)
ANNOTATIONS = st.sampled_from(
    [""] * 6
    + [
        "::var_is_introduced",
        ":: is_defined_var :: domain",
        r':: mzn_path("a;b|c \"q\" % \\")',
        ':: mine([1,2.5,{1}],f(g(1..2,{}),"x"),[[true]])::ctx_pos',
        "\n  :: bounds % a comment; constraint int_lt(1,1);\n",
    ]
)
SEPARATORS = st.sampled_from(["\n"] * 6 + [" ", "\n\n", "\t% so; far\n", "\r\n"])
SEARCHES = (
    "int_search({ints},first_fail,indomain_min,complete)",
    "seq_search([int_search({ints},dom_w_deg,indomain_random),bool_search({bools},input_order,indomain_max,complete)])",
    "int_search({ints},largest,indomain_split) :: restart_luby(250)",
    "bool_search({bools},smallest,indomain_median,complete)",
    "warm_start({ints},{values})",
    "restart_geometric(1.5,100) :: no_such_annotation({ints})",
)
FLAGS = ((), (), ("-f",), ("-p", "1"), ("-p", "2"), ("-f", "-p", "2", "-r", "7"))


@dataclass
class Instance:
    """A file; its variables with their values, conditions on assignments, the names that it prints, and flags."""

    text: str = ""
    domains: dict[str, list] = field(default_factory=dict)
    constants: dict[str, object] = field(default_factory=dict)
    conditions: list[tuple[Relation, list]] = field(default_factory=list)
    outputs: list[str] = field(default_factory=list)
    objective: object = None
    maximize: bool = False
    flags: tuple[str, ...] = ()

    def solutions(self) -> Iterator[dict[str, object]]:
        """All assignments that satisfy the file, by enumeration; arrays and parameters are among the names."""
        for values in itertools.product(*self.domains.values()):
            names = {**self.constants, **dict(zip(self.domains, values, strict=True))}
            if all(
                relation.holds(*(evaluate(argument, names) for argument in arguments))
                for relation, arguments in self.conditions
            ):
                yield names

    def printed(self, names: dict[str, object]) -> dict[str, object]:
        """What the file prints for an assignment."""
        return {name: evaluate(name, names) for name in self.outputs}


def evaluate(expression: object, names: dict[str, object]) -> object:
    """The value of an expression; names are strings."""
    if isinstance(expression, str):
        return evaluate(names[expression], names)
    if isinstance(expression, list):
        return [evaluate(item, names) for item in expression]
    return expression


def show(expression: object, spread: bool = False) -> str:
    """An expression as FlatZinc; `spread` writes it in a less usual way."""
    if isinstance(expression, bool):
        return "true" if expression else "false"
    if isinstance(expression, int):
        return f"{'-' * (expression < 0)}0x{abs(expression):x}" if spread else str(expression)
    if isinstance(expression, list):
        return ("[ " if spread else "[") + (" , " if spread else ",").join(map(show, expression)) + "]"
    if isinstance(expression, frozenset):
        values = sorted(expression)
        if not values:
            return "1..0" if spread else "{}"
        if len(values) == values[-1] - values[0] + 1 and spread:
            return f"{values[0]}..{values[-1]}"
        return "{" + ",".join(map(str, values)) + "}"
    return expression


class _Writer:
    """Collects the items of one file, in three groups: parameters, variables and arrays, constraints."""

    def __init__(self, draw: st.DrawFn) -> None:
        self.draw = draw
        self.instance = Instance()
        self.items: tuple[list[str], list[str], list[str]] = ([], [], [])
        self.ints: list[str] = []
        self.bools: list[str] = []
        self.witness: dict[str, object] = {}

    def chance(self, one_in: int) -> bool:
        return self.draw(st.integers(1, one_in)) == one_in

    def variables(self) -> None:
        """2 to 5 variables, some with a right-hand side."""
        for number in range(self.draw(st.integers(2, 5))):
            is_bool, is_output = self.draw(st.booleans()), self.draw(st.booleans())
            name = self.draw(st.sampled_from(["x", "_y", "X_INTRODUCED_", "true_"])) + str(number)
            room = MOST_ASSIGNMENTS // math.prod(map(len, self.instance.domains.values()))
            kind, values = ("bool", [False, True]) if is_bool else self._domain(min(room, 6))
            if room < len(values):
                break
            (self.bools if is_bool else self.ints).append(name)
            self.instance.domains[name] = values
            self.witness[name] = self.draw(st.sampled_from(values))
            annotations = self.draw(ANNOTATIONS)
            if is_output:
                self.instance.outputs.append(name)
                annotations = f"{annotations} :: output_var"
            right = ""
            if self.chance(8):
                value = self.operand("Bool" if is_bool else "Int")
                right = f" = {show(value)}"
                self.instance.conditions.append((Relation(("Int", "Int"), lambda x, y: x == y), [name, value]))
            if kind[0] in "-0123456789" and self.chance(8):
                self._bound(name, values[0], values[-1])
                kind = "int"
            self.items[1].append(f"var {kind}: {name}{annotations}{right}")

    def _bound(self, name: str, low: int, high: int) -> None:
        """Constraints that give a variable declared as `var int` its domain."""
        forms = [
            f"set_in({name},{low}..{high})",
            f"int_le({name},{high});\nconstraint int_lin_le([-2],[{name}],{-2 * low})",
            f"int_lt({low - 1},{name}); constraint int_lin_le([1,3],[{name},1],{high + 3})",
        ]
        self.items[2].append(f"constraint {self.draw(st.sampled_from(forms))}")

    def _domain(self, most: int) -> tuple[str, list]:
        if self.chance(3):
            values = sorted(self.draw(st.frozensets(SMALL | st.sampled_from([-1000, 99]), min_size=1, max_size=most)))
            return show(frozenset(values), self.draw(st.booleans())), values
        low = self.draw(st.integers(-3, 3))
        high = low + self.draw(st.integers(0, most - 1))
        return f"{low}..{high}", list(range(low, high + 1))

    def operand(self, kind: str) -> object:
        """An argument for one value: a variable, a constant or the name of a parameter."""
        if kind == "Set":
            return self._named(self.draw(SETS), "set of int", 4)
        names = {"Int": self.ints, "Bool": self.bools, "Par": []}[kind]
        if names and not self.chance(4):
            return self.draw(st.sampled_from(names))
        if kind == "Bool":
            return self._named(self.draw(st.booleans()), "bool", 5)
        return self._named(self.draw(SMALL), "int", 5)

    def array(self, kind: str, length: int) -> object:
        """An argument for an array: a literal or the name of one."""
        element = kind.removesuffix("s")
        if element == "Par" or (element != "Set" and self.chance(8)):
            values = self.draw(
                st.lists(st.booleans() if element == "Bool" else SMALL, min_size=length, max_size=length)
            )
            return self._named(values, f"array [1..{length}] of {'bool' if element == 'Bool' else 'int'}", 3)
        values = [self.operand(element) for _ in range(length)]
        return self._variable_array(values, element == "Bool") if self.chance(3) else values

    def _named(self, value: object, kind: str, one_in: int) -> object:
        """The value itself or, sometimes, a parameter."""
        if not self.chance(one_in):
            return value
        name = f"p{len(self.items[0])}"
        self.instance.constants[name] = value
        self.items[0].append(f"{kind}: {name} = {show(value, self.chance(2))}")
        return name

    def _variable_array(self, values: list, is_bool: bool) -> str:
        name = f"a{len(self.items[1])}"
        self.instance.constants[name] = values
        annotations = self.draw(ANNOTATIONS)
        if self.chance(2):
            self.instance.outputs.append(name)
            index = self.draw(st.sampled_from([f"1..{len(values)}", f"1..1,0..{len(values) - 1}"]))
            annotations += f" :: output_array([{index}])"
        kind = "bool" if is_bool else "int"
        self.items[1].append(f"array [1..{len(values)}] of var {kind}: {name}{annotations} = {show(values)}")
        return name

    def constraint(self, names: Sequence[str]) -> None:
        """One constraint with one of the names; nothing if the witness cannot satisfy it."""
        name = self.draw(st.sampled_from(names))
        relation, length = meaning(name), self.draw(st.integers(0, 3))
        arguments = []
        for kind in relation.kinds:
            if kind.endswith("s"):
                arguments.append(self.array(kind, length if relation.equal_lengths else self.draw(st.integers(0, 4))))
            else:
                arguments.append(self.operand(kind))
        if self.witness and not self._repair(relation, arguments):
            return
        self.instance.conditions.append((relation, arguments))
        text = ",".join(show(argument, self.chance(6)) for argument in arguments)
        self.items[2].append(f"constraint {name}({text}){self.draw(ANNOTATIONS)}")

    def _repair(self, relation: Relation, arguments: list) -> bool:
        """Make the constraint true for the witness by another operand, if one does it."""

        def holds(changed: list) -> bool:
            return relation.holds(*(evaluate(item, self.instance.constants | self.witness) for item in changed))

        if holds(arguments):
            return True
        operands = {"Int": [*self.ints, *range(-9, 10)], "Bool": [*self.bools, False, True], "Par": range(-9, 10)}
        repairs = [
            (place, operand)
            for place, kind in enumerate(relation.kinds)
            for operand in operands.get(kind, ())
            if holds([*arguments[:place], operand, *arguments[place + 1 :]])
        ]
        if repairs:
            place, arguments[place] = self.draw(st.sampled_from(repairs))
        return bool(repairs)

    def solve(self, optimise: bool) -> str:
        searches = self.draw(st.lists(st.sampled_from(SEARCHES), max_size=2))
        values = show([0] * len(self.ints))
        filled = [text.format(ints=show(self.ints), bools=show(self.bools), values=values) for text in searches]
        goal = "satisfy"
        if optimise:
            self.instance.objective = self.operand("Int")
            self.instance.maximize = self.draw(st.booleans())
            goal = f"{'maximize' if self.instance.maximize else 'minimize'} {show(self.instance.objective)}"
        return "solve " + "".join(f":: {text} " for text in filled) + goal

    def finish(self, optimise: bool) -> Instance:
        solve = self.solve(optimise)
        items = [*self.items[1], *self.items[2], solve]
        if self.chance(4):
            items = self.draw(st.permutations(items))
        items = [*self.items[0], *items]
        self.instance.text = "".join(f"{item};{self.draw(SEPARATORS)}" for item in items)
        return self.instance


@st.composite
def instances(draw: st.DrawFn, first: str = "", optimise: bool = False) -> Instance:
    """A random file of 2 to 5 variables and some constraints, one of them `first` in some form; mostly satisfiable."""
    writer = _Writer(draw)
    writer.variables()
    if writer.chance(5):
        writer.witness = {}
    writer.constraint([name for name in NAMES if name in (first, f"{first}_imp", f"{first}_reif")] or NAMES)
    for _ in range(draw(st.integers(0, 4))):
        writer.constraint(NAMES)
    writer.instance.flags = draw(st.sampled_from(FLAGS))
    return writer.finish(optimise)
