"""Values outside of a network's tensors that change after planning: a step is equal to the eager one, or refused with
the name of what has changed."""

from __future__ import annotations

import collections
import contextvars
import enum
import functools
import importlib
import logging
import os
import re
import sys
import threading
import weakref
from types import MappingProxyType, ModuleType, SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn

from moccasin_mzn.pytorch import PlanError, plan

CHEAP = {"durations": "flop", "workspaces": "none", "search": "only", "until_gap": 0.9, "time_limit": 30.0}
RATE, TABLE, STATE, CACHE, rate = 1.0, {"rate": [1.0], "other": 5}, {"rate": 1.0, "step": 0}, {}, 1.0
CONTEXT = contextvars.ContextVar("rate", default=1.0)
LOG = logging.getLogger("test_outside_values")


class Thing:
    shared = 1.0

    def __init__(self, **attributes):
        vars(self).update(attributes)

    @property
    def twice(self):
        return 2 * self.rate

    def scaled(self, y):
        return y * self.rate


class Slots:
    __slots__ = ("rate",)

    def __init__(self):
        self.rate = 1.0


class Meta(type):
    pace = 1.0


class Paced(metaclass=Meta):
    pass


class Called(Thing):
    def __call__(self):
        return self.rate


class Faster(Called):
    def __call__(self):
        return 2.5


class Kind(enum.Enum):
    LOW, HIGH = 1, 2


class Base(nn.Module):
    rate = 1.0

    def factor(self):
        return 1.0


class Net(Base):
    """Its activation reads something of it."""

    def __init__(self, read):
        super().__init__()
        self.line, self.read = nn.Linear(4, 4), read
        self.d = {"t": torch.tensor(1.0), "deep": [{"x": 1.0}], "unread": 0}
        self.l, self.q, self.s = [torch.tensor(1.0), 1.0], collections.deque([1.0]), {1}
        self.o = Thing(rate=1.0, t=torch.tensor(1.0), o=Thing(rate=1.0, l=[Thing(rate=1.0)], a=np.ones(2)))
        self.a, self.n, self.zero = np.ones(2), np.float32(1), 0.0
        self.slots, self.space = Slots(), SimpleNamespace(r=1.0)
        self.more = collections.defaultdict(list, a=[1.0])
        self.kind, self.t, self.call = Kind.LOW, torch.tensor(1.0), functools.partial(torch.mul, other=1.0)
        self.hidden, self.cache = [nn.Dropout(0.0)], {}
        self.weak, self.context, self.local = weakref.ref(self.o), CONTEXT, threading.local()
        self.local.rate, self.chain = 1.0, collections.ChainMap({"a": 1.0}, {"b": 1.0})
        self.frozen, self.bytes, self.called = MappingProxyType(self.more), bytearray(b"\x01"), Called(rate=1.0)

    def forward(self, x):
        return self.line(x).tanh() * self.read(self)


def noted(self):
    return noted.rate


def by_default(self, thing=Thing(rate=1.0)):  # noqa: B008
    return thing.rate


def by_name(self):
    return TABLE["rate"][0]


def by_key(self, key="ra"):
    return TABLE[key + "te"][0]


def by_alias(self):
    state = STATE
    return state["rate"]


def cached(self):
    size = self.line.in_features
    if size not in CACHE:
        CACHE[size] = 1.0
    return CACHE[size]


def closed():
    rate, rates = 1.0, [1.0]

    def read(self):
        return rate * rates[0]

    def write(one, other):
        nonlocal rate
        rate, rates[0] = one, other

    return read, write


READ, WRITE = closed()


class Halved(torch.autograd.Function):
    @staticmethod
    def forward(ctx, y):
        return y * 1

    @staticmethod
    def backward(ctx, gradient):
        return gradient * RATE


def setting(**values):
    return lambda model: globals().update(values)


def reset():
    setting(RATE=1.0)(None)
    TABLE.update(rate=[1.0], other=5)
    STATE.update(rate=1.0, step=0)
    Base.rate, Base.factor, Net.extra, Thing.shared, noted.rate = 1.0, FACTOR, 1.0, 1.0, 1.0
    by_default.__defaults__[0].rate = 1.0
    WRITE(1.0, 1.0)
    CACHE.clear()
    CONTEXT.set(1.0)
    Meta.pace, Called.__call__ = 1.0, CALL
    os.environ["OUT_RATE"] = "1"
    vars(Net).get("rate") and delattr(Net, "rate")


FACTOR, CALL = Base.factor, Called.__call__
CASES = {
    "class": (lambda m: m.rate, lambda m: setattr(Base, "rate", 2.5), "Base.rate"),
    "derived class": (lambda m: m.rate, lambda m: setattr(Net, "rate", 2.5), None),
    "type": (lambda m: type(m).extra, lambda m: setattr(Net, "extra", 2.5), "Net.extra"),
    "class by name": (lambda m: Base.rate, lambda m: setattr(Base, "rate", 2.5), "Base.rate"),
    "instance over class": (lambda m: m.rate, lambda m: setattr(m, "rate", 2.5), "'rate'"),
    "method of a class": (lambda m: m.factor(), lambda m: setattr(Base, "factor", lambda self: 2.5), "factor"),
    "method of the module": (lambda m: m.factor(), lambda m: setattr(m, "factor", lambda: 2.5), "factor"),
    "missing": (lambda m: getattr(m, "late", 1.0), lambda m: setattr(m, "late", 2.5), "'late' = missing"),
    "tensor in dict": (lambda m: m.d["t"], lambda m: m.d.update(t=torch.tensor(2.5)), r"d['t']"),
    "nested": (lambda m: m.d["deep"][0]["x"], lambda m: m.d["deep"][0].update(x=2.5), "deep"),
    "tensor in list": (lambda m: m.l[0], lambda m: m.l.__setitem__(0, torch.tensor(2.5)), "'l'"),
    "number in list": (lambda m: m.l[1], lambda m: m.l.__setitem__(1, 2.5), "'l'"),
    "deque": (lambda m: m.q[0], lambda m: m.q.appendleft(2.5), "'q'"),
    "set": (lambda m: sum(m.s), lambda m: m.s.add(2), "'s'"),
    "default dict": (lambda m: m.more["a"][0], lambda m: m.more["a"].insert(0, 2.5), "more"),
    "all of a dict": (lambda m: len(m.more), lambda m: m.more["b"], "more"),
    "numpy": (lambda m: float(m.a[0]), lambda m: m.a.fill(2.5), "'a'"),
    "numpy deep": (lambda m: float(m.o.o.a[1]), lambda m: m.o.o.a.fill(2.5), "o.o.a"),
    "numpy scalar": (lambda m: float(m.n), lambda m: setattr(m, "n", np.float32(2.5)), "'n'"),
    "truth of a tensor": (lambda m: 1.0 if m.t < 2 else 3.0, lambda m: m.t.mul_(2.5), "which was True"),
    "list of a tensor": (lambda m: m.t.tolist(), lambda m: m.t.mul_(2.5), "all values of a tensor are read"),
    "array of a tensor": (lambda m: float(m.t.numpy()), lambda m: m.t.mul_(2.5), "all values of a tensor are read"),
    "sign of zero": (lambda m: 1.0 + np.copysign(0.5, m.zero), lambda m: setattr(m, "zero", -0.0), "'zero'"),
    "enum": (lambda m: m.kind.value, lambda m: setattr(m, "kind", Kind.HIGH), "'kind'"),
    "tensor of an object": (lambda m: m.o.t, lambda m: setattr(m.o, "t", torch.tensor(2.5)), "o.t"),
    "object": (lambda m: m.o.o.rate, lambda m: setattr(m.o.o, "rate", 2.5), "o.o.rate"),
    "object in list of object": (lambda m: m.o.o.l[0].rate, lambda m: setattr(m.o.o.l[0], "rate", 2.5), "rate"),
    "whole object": (lambda m: m.o.o.rate, lambda m: setattr(m.o, "o", Thing(rate=2.5)), "o.o"),
    "class of an object": (lambda m: m.o.shared, lambda m: setattr(Thing, "shared", 2.5), "Thing.shared"),
    "object over its class": (lambda m: m.o.shared, lambda m: setattr(m.o, "shared", 2.5), "o.shared"),
    "property": (lambda m: m.o.twice, lambda m: setattr(m.o, "rate", 2.5), "o.rate"),
    "method": (lambda m: m.o.scaled(1.0), lambda m: setattr(m.o, "rate", 2.5), "o.rate"),
    "slots": (lambda m: m.slots.rate, lambda m: setattr(m.slots, "rate", 2.5), "slots.rate"),
    "namespace": (lambda m: m.space.r, lambda m: setattr(m.space, "r", 2.5), "space.r"),
    "metaclass": (lambda m: Paced.pace, lambda m: setattr(Meta, "pace", 2.5), "Meta.pace"),
    "weak reference": (lambda m: m.weak().rate, lambda m: setattr(m.o, "rate", 2.5), "rate"),
    "context": (lambda m: m.context.get(), lambda m: CONTEXT.set(2.5), "context"),
    "of a thread": (lambda m: m.local.rate, lambda m: setattr(m.local, "rate", 2.5), "local.rate"),
    "chain of dicts": (lambda m: m.chain["b"], lambda m: m.chain.update(b=2.5), "chain"),
    "dict that is read only": (lambda m: m.frozen["a"][0], lambda m: m.more["a"].insert(0, 2.5), "frozen"),
    "bytes": (lambda m: m.bytes[0], lambda m: m.bytes.__setitem__(0, 2), "bytes"),
    "other class": (lambda m: m.called(), lambda m: setattr(m.called, "__class__", Faster), "class of 'called'"),
    "call of a class": (lambda m: m.called(), lambda m: setattr(Called, "__call__", Faster.__call__), "__call__"),
    "vars": (lambda m: vars(m)["zero"] + 1.0, lambda m: setattr(m, "zero", 1.5), "'zero'"),
    "getattr": (lambda m: getattr(m.o, "ra" + "te"), lambda m: setattr(m.o, "rate", 2.5), "o.rate"),
    "partial": (lambda m: m.call(torch.ones(4)), lambda m: m.call.keywords.update(other=2.5), None),
    "function": (noted, lambda m: setattr(noted, "rate", 2.5), ".rate'"),
    "default argument": (by_default, lambda m: setattr(by_default.__defaults__[0], "rate", 2.5), "rate"),
    "variable of a closure": (READ, lambda m: WRITE(2.5, 1.0), "'rate'"),
    "list of a closure": (READ, lambda m: WRITE(1.0, 2.5), "'rates'"),
    "global": (lambda m: RATE, setting(RATE=2.5), "RATE"),
    "global in a backward pass": (lambda m: Halved.apply(m.line.bias), setting(RATE=2.5), "RATE"),
    "global list in dict": (by_name, lambda m: TABLE["rate"].insert(0, 2.5), "TABLE"),
    "key": (lambda m: STATE["rate"], lambda m: STATE.update(rate=2.5), "STATE['rate']"),
    "key by get": (lambda m: STATE.get("late", 1.0), lambda m: STATE.update(late=2.5), "STATE['late']"),
    "entry of a cache": (cached, lambda m: CACHE.update({4: 2.5}), "CACHE[4]"),
    "entry by a name": (by_alias, lambda m: STATE.update(rate=2.5), "STATE['rate']"),
    "entry by a computed key": (by_key, lambda m: TABLE.update(rate=[2.5]), "TABLE"),
    "all values": (lambda m: sum(STATE.values()), lambda m: STATE.update(step=2.5), "STATE"),
    "environment": (lambda m: float(os.environ["OUT_RATE"]), lambda m: os.environ.update(OUT_RATE="2"), "OUT_RATE"),
    "getenv": (lambda m: float(os.getenv("OUT_RATE")), lambda m: os.environ.update(OUT_RATE="2"), "OUT_RATE"),
    "module in a list": (lambda m: 1 + m.hidden[0].p, lambda m: setattr(m.hidden[0], "p", 0.5), "hidden[0].p"),
    "mode of a module in a list": (lambda m: m.hidden[0](m.line.bias), lambda m: m.hidden[0].eval(), "training"),
    "tensor in place": (lambda m: m.t, lambda m: m.t.mul_(2.5), None),
    "number of a tensor": (lambda m: float(m.t), lambda m: m.t.mul_(2.5), None),
    "tensor requires a gradient": (lambda m: m.t, lambda m: m.t.requires_grad_(), "'t'"),
    "tensor of another shape": (lambda m: m.t, lambda m: setattr(m.t, "data", torch.full((4,), 2.5)), "'t'"),
    "equal tensor": (lambda m: m.t, lambda m: setattr(m, "t", torch.tensor(1.0)), None),
    "equal list": (lambda m: m.l[1], lambda m: setattr(m, "more", {"a": [1.0]}), None),
    "unread entry": (lambda m: m.d["t"], lambda m: m.d.update(unread=1), None),
    "unread global entry": (lambda m: STATE["rate"], lambda m: STATE.update(step=7), None),
    "unread attribute": (lambda m: m.o.rate, lambda m: setattr(m.o, "other", 1), None),
    "unread entry by another name": (by_alias, lambda m: STATE.update(step=7), None),
    "global that an attribute is called by": (lambda m: m.o.rate, setting(rate=7), None),
    "another entry of a cache": (cached, lambda m: CACHE.update({9: 2.5}), None),
    "level of a logger": (lambda m: LOG.debug("read") or 1.0, lambda m: LOG.setLevel("ERROR"), None),
}  # fmt: skip
ACCEPTED = [*CASES][[*CASES].index("equal tensor") :]


def results(model, step, x):
    model.zero_grad(set_to_none=True)
    loss = step(x).square().sum()
    loss.backward()
    return [loss.detach(), *(parameter.grad for parameter in model.parameters())]


@pytest.fixture
def x():
    torch.manual_seed(0)
    return torch.rand(8, 4)


@pytest.mark.parametrize("kind", CASES)
def test_a_value_that_changes_is_followed_or_refused_by_its_name(kind, x):
    read, change, name = CASES[kind]
    reset()
    try:
        model = Net(read)
        budget = 1.0 if "of a tensor" in kind else "1TiB"  # it is run, so that values can be read
        step = plan(model, (x,), budget=budget, **CHEAP).module()
        for _ in range(2):
            assert all(map(torch.equal, results(model, step, x), results(model, model, x)))
        change(model)
        wanted = results(model, model, x)
        try:
            found = results(model, step, x)
        except PlanError as error:
            text = str(error)
        else:
            assert all(map(torch.equal, found, wanted))
            return
        assert kind not in ACCEPTED and (name or "") in text and "\n" not in text
    finally:
        reset()


def test_a_module_of_the_users_own_files_is_watched(tmp_path, monkeypatch, x):
    (tmp_path / "outside_settings.py").write_text("rate = 1.0\nclass Options:\n    rate = 1.0\noptions = Options()\n")
    monkeypatch.syspath_prepend(tmp_path)
    settings = importlib.import_module("outside_settings")
    for read, change in (
        (lambda m: settings.rate, lambda: setattr(settings, "rate", 2.5)),
        (lambda m: settings.options.rate, lambda: setattr(settings.options, "rate", 2)),
        (lambda m: settings.options.rate, lambda: setattr(settings.Options, "rate", 2.5)),
    ):  # fmt: skip
        model = Net(read)
        step = plan(model, (x,), budget="1TiB", **CHEAP).module()
        assert torch.equal(step(x), model(x))
        change()
        with pytest.raises(PlanError, match=r"planned with '.*[rR]ate' = "):
            step(x)
        settings.rate = settings.Options.rate = 1.0
        vars(settings.options).clear()


class Scaled:
    """A loss with options of its own."""

    def __init__(self):
        self.rate = 1.0

    def __call__(self, y):
        return (y * self.rate).sum()


@pytest.mark.parametrize(
    ("loss", "change", "name"),
    [
        (Scaled(), lambda loss: setattr(loss, "rate", 2.5), "rate"),
        (nn.CrossEntropyLoss(), lambda loss: setattr(loss, "label_smoothing", 0.5), "label_smoothing"),
        (nn.CrossEntropyLoss(torch.ones(4)), lambda loss: setattr(loss, "weight", torch.full((4,), 2.0)), "weight"),
        (functools.partial(nn.functional.cross_entropy), lambda loss: loss.keywords.update(label_smoothing=0.5), ""),
    ],
)  # fmt: skip
def test_options_of_a_loss_are_watched(loss, change, name, x):
    model = Net(lambda m: 1.0)
    target = () if isinstance(loss, Scaled) else (torch.arange(8) % 4,)
    step = plan(model, (x, *target), loss=loss, budget="1TiB", **CHEAP).module()
    assert torch.equal(step(x, *target), loss(model(x), *target))
    change(loss)
    with pytest.raises(PlanError, match=f"planned with .*{name}"):
        step(x, *target)


def test_attributes_of_an_argument_that_is_an_object_are_watched(x):
    class Taking(Net):
        def forward(self, x, thing):
            return self.line(x) * thing.rate

    model, thing = Taking(None), Thing(rate=1.0, other=1)
    step = plan(model, (x, thing), budget="1TiB", **CHEAP).module()
    thing.other = 2
    assert torch.equal(step(x, thing), model(x, thing))
    thing.rate = 2.5
    with pytest.raises(PlanError, match=r"rate' = 1.0, it is 2.5 now|other arguments"):
        step(x, thing)


def test_variables_that_a_hook_reads_are_watched(x):
    rate = [1.0]
    model = Net(lambda m: 1.0)
    model.line.register_forward_hook(lambda module, inputs, output: output * rate[0])
    model.line.register_full_backward_hook(lambda module, inputs, outputs: (inputs[0],) if RATE else None)
    step = plan(model, (x.requires_grad_(),), budget="1TiB", **CHEAP).module()
    assert torch.equal(step(x), model(x))
    rate[0] = 2.5
    with pytest.raises(PlanError, match="planned with 'rate' = "):
        step(x)


@pytest.mark.parametrize("warm", [False, True])
def test_what_is_filled_once_or_in_each_step_and_counters_of_others_do_not_refuse_it(warm, x):
    calls, sizes = collections.Counter(), []

    @functools.lru_cache
    def mask(size):
        return torch.ones(size)

    def read(model):
        model.o.scratch = model.line.weight.sum()  # in each step, before it is read
        model.cache.setdefault("mask", 1.0)
        if not sizes:
            sizes.append(mask(4).sin().shape[0])
        return mask(sizes[0]) * model.o.scratch

    model, features = Net(read), []

    def forward(x):
        features.clear()
        features.append(x.sin())
        CONTEXT.set(1.0)
        return Net.forward(model, x) + features[0]

    model.forward = forward
    mask(4), model.cache.update(mask=1.0)
    if warm:
        model(x)
    step = plan(model, (x,), budget="1TiB", **CHEAP).module()
    for _ in range(2):
        calls["forward"] += 1
        STATE["step"] += 1
        assert all(map(torch.equal, results(model, step, x), results(model, model, x)))


# --- what a network writes itself -----------------------------------------------------------------------------

PARTS, (FETCH, STORE), OTHER = [1.0], closed(), 1.0


def counted():
    counted.calls += 1
    return 1.0


counted.calls = 0


def replaced(read, write):
    """Reads, and writes in each run what eager reads from the next step on."""

    def act(model):
        value = read(model)
        write(model)
        return value

    return act


def added(write):
    return replaced(lambda m: 1.0, write)


def count_global(model):
    global OTHER
    OTHER += 1


def extended(model):
    PARTS.append(1)


WRITTEN = {
    "closure": (lambda m: FETCH(m), lambda m: STORE(2.5, 1.0), "rate"),
    "list in a closure": (lambda m: FETCH(m), lambda m: STORE(1.0, 2.5), "rates"),
    "list": (lambda m: m.l[1], lambda m: m.l.__setitem__(1, 2.5), "'l'"),
    "tensor in a list": (lambda m: m.l[0], lambda m: m.l.__setitem__(0, torch.tensor(2.5)), "'l'"),
    "tensor of an object": (lambda m: m.o.t, lambda m: setattr(m.o, "t", torch.tensor(2.5)), "o.t"),
    "list in an object": (lambda m: m.o.o.l[0].rate, lambda m: setattr(m.o.o.l[0], "rate", 2.5), "rate"),
    "object in an object": (lambda m: m.o.o.rate, lambda m: setattr(m.o, "o", Thing(rate=2.5)), "o.o"),
    "base class": (lambda m: m.rate, lambda m: setattr(Base, "rate", 2.5), "Base.rate"),
    "dict": (lambda m: m.d["deep"][0]["x"], lambda m: m.d["deep"][0].update(x=2.5), "deep"),
    "global": (lambda m: RATE, lambda m: globals().update(RATE=2.5), "RATE"),
    "entry of a global": (lambda m: TABLE["rate"][0], lambda m: TABLE.update(rate=[2.5]), "TABLE"),
    "property": (lambda m: m.o.twice, lambda m: setattr(m.o, "rate", 2.5), "o.rate"),
    "attribute": (lambda m: m.zero + 1, lambda m: setattr(m, "zero", 1.5), "'zero'"),
    "slots": (lambda m: m.slots.rate, lambda m: setattr(m.slots, "rate", 2.5), "slots.rate"),
    "array": (lambda m: float(m.a[0]), lambda m: m.a.fill(2.5), "'a'"),
    "deque": (lambda m: m.q[0], lambda m: m.q.appendleft(2.5), "'q'"),
    "context": (lambda m: m.context.get(), lambda m: CONTEXT.set(2.5), "context"),
    "environment": (
        lambda m: float(os.environ["OUT_RATE"]), lambda m: os.environ.update(OUT_RATE="2.5"), r"os.environ['OUT_RATE']"
    ),
    "counter of a function": (lambda m: counted(), lambda m: None, "counted.calls"),
    "global counter": (lambda m: 1.0, count_global, "OTHER"),
    "global list": (lambda m: 1.0, extended, "PARTS"),
    "counter in a dict": (lambda m: 1.0, lambda m: TABLE.update(other=TABLE["other"] + 1), "TABLE"),
    "counter of a class": (lambda m: 1.0, lambda m: setattr(Thing, "shared", Thing.shared + 1), "Thing.shared"),
}  # fmt: skip


@pytest.mark.parametrize("kind", WRITTEN)
def test_what_the_network_itself_writes_is_refused_and_put_back(kind, x):
    read, write, called = WRITTEN[kind]
    model = Net(replaced(read, write))
    reset()
    before = repr((read(model), OTHER, PARTS, TABLE, Thing.shared))
    counted.calls = 0
    with pytest.raises(PlanError, match=re.escape(called)) as refusal:
        plan(model, (x,), budget="1TiB", **CHEAP)
    assert "the network changes " in str(refusal.value) and "which a plan would not do" in str(refusal.value)
    assert "\n" not in str(refusal.value) and counted.calls == 0
    assert repr((read(model), OTHER, PARTS, TABLE, Thing.shared)) == before


OWN = ModuleType("own_of_test_outside_values")
OWN.rate = 1.0


def defaulted(rate=1.0, *, other=1.0):
    return rate * other


@pytest.mark.parametrize(
    ("read", "change", "restore", "called"),
    [
        (
            lambda m: defaulted(),
            lambda: setattr(defaulted, "__defaults__", (2.5,)),
            lambda: setattr(defaulted, "__defaults__", (1.0,)),
            "__defaults__ of 'defaulted' = (1.0,), it is (2.5,)",
        ),
        (
            lambda m: defaulted(),
            lambda: setattr(defaulted, "__kwdefaults__", {"other": 2.5}),
            lambda: setattr(defaulted, "__kwdefaults__", {"other": 1.0}),
            "__kwdefaults__ of 'defaulted' = {'other': 1.0}, it is {'other': 2.5}",
        ),
        (lambda m: OWN.rate, lambda: setattr(OWN, "rate", 2.5), lambda: setattr(OWN, "rate", 1.0), "'OWN.rate' = 1.0"),
        (lambda m: len(sys.argv), lambda: sys.argv.append("more"), lambda: sys.argv.pop(), "'sys.argv' = ["),
        (
            lambda m: torch.get_num_threads(),
            lambda: torch.set_num_threads(torch.get_num_threads() + 1),
            lambda: torch.set_num_threads(torch.get_num_threads() - 1),
            "'torch.get_num_threads' = ",
        ),
    ],
    ids=["defaults", "defaults by name", "own module", "sys.argv", "threads"],
)
def test_what_is_no_attribute_of_an_object_is_compared_if_code_names_it(read, change, restore, called, x):
    step = plan(Net(read), (x,), budget="1TiB", **CHEAP).module()
    other = plan(Net(lambda m: 1.0), (x,), budget="1TiB", **CHEAP).module()
    step(x)
    change()
    try:
        other(x)
        with pytest.raises(PlanError, match=re.escape(f"planned with {called}")):
            step(x)
    finally:
        restore()
    step(x)
