"""Source of random small networks that read and change state in their steps, and of loops around them.

A module of this kind has `make()`, `inputs(net, step)`, and what its loop does: `before(net, step)`, `world(step)`, a context
of the forward pass, `between(net, step, out)`, `after(net, step)`; `state(net)` is what it can be seen to have changed.
"""

# ruff: noqa: E501 - lines of other sources

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

STEPS: Final = 4


@dataclass(frozen=True)
class Place:
    """Where a value stands. In all texts {v} is the value's source, {o} the network; braces of Python are doubled."""

    name: str
    read: str
    init: str = ""
    """In the network's `__init__`."""
    top: str = ""
    """At the top of the file."""
    body: str = ""
    """In the class."""
    write: str = ""
    """How it gets another one; empty: by an assignment to what is read."""
    numbers_only: bool = False

    @property
    def assigned(self) -> str:
        """How it gets another one."""
        return self.write or f"{self.read} = {{v}}"


PLACES: Final = (
    Place("attribute", "{o}.v", "self.v = {v}"),
    Place("attribute by getattr", "getattr({o}, 'v')", "self.v = {v}", write="{o}.v = {v}"),
    Place("attribute by vars", "vars({o})['v']", "self.v = {v}"),
    Place("submodule's attribute", "{o}.a.v", "self.a.v = {v}"),
    Place("dict", "{o}.box['v']", "self.box = {{'v': {v}}}"),
    Place("dict, another one", "{o}.box['v']", "self.box = {{'v': {v}}}", write="{o}.box = {{'v': {v}}}"),
    Place("ordered dict", "{o}.box['v']", "self.box = collections.OrderedDict(v={v})"),
    Place("default dict", "{o}.box['v']", "self.box = collections.defaultdict(lambda: None, v={v})"),
    Place("list", "{o}.row[1]", "self.row = [0, {v}]"),
    Place("nested", "{o}.deep[0]['k'][0]", "self.deep = [{{'k': [{v}]}}]"),
    Place("three deep", "{o}.deep['k'].v[0]['j'].v", "self.deep = {{'k': Thing([{{'j': Thing({v})}}])}}"),
    Place("deque", "{o}.queue[0]", "self.queue = collections.deque([{v}])"),
    Place("list in a tuple", "{o}.pair[0][0]", "self.pair = ([{v}], 0)"),
    Place("tuple", "{o}.pair[1]", "self.pair = (0, {v})", write="{o}.pair = (0, {v})"),
    Place("named tuple", "{o}.point.v", "self.point = Point({v})", write="{o}.point = Point({v})"),
    Place("object", "{o}.thing.v", "self.thing = Thing({v})"),
    Place("object, another one", "{o}.thing.v", "self.thing = Thing({v})", write="{o}.thing = Thing({v})"),
    Place("object in an object", "{o}.thing.v.v", "self.thing = Thing(Thing({v}))"),
    Place("list in an object", "{o}.thing.v[0]", "self.thing = Thing([{v}])"),
    Place("object in a list", "{o}.row[0].v", "self.row = [Thing({v})]"),
    Place("slots", "{o}.slots.v", "self.slots = Slots({v})"),
    Place("namespace", "{o}.names.v", "self.names = types.SimpleNamespace(v={v})"),
    Place("dataclass", "{o}.config.v", "self.config = Config({v})"),
    Place("property", "{o}.w", "self._w = {v}", body="@property\ndef w(self):\n    return self._w", write="{o}._w = {v}"),
    Place("property of a list", "{o}.w", "self._w = [{v}]", body="@property\ndef w(self):\n    return self._w[0]",
          write="{o}._w[0] = {v}"),
    Place("method", "{o}.get()", "self.v = {v}", body="def get(self):\n    return self.v", write="{o}.v = {v}"),
    Place("__getattr__ of an object", "{o}.late.v", "self.late = Late({v})", write="{o}.late.table['v'] = {v}"),
    Place("class attribute", "{o}.v", body="v = {v}", write="type({o}).v = {v}"),
    Place("base class attribute", "{o}.u", top="Base.u = {v}", write="Base.u = {v}"),
    Place("class container", "{o}.shared['v']", body="shared = {{'v': {v}}}"),
    Place("other class", "Settings.v", top="class Settings:\n    v = {v}"),
    Place("function attribute", "helper.v", top="def helper():\n    pass\n\n\nhelper.v = {v}"),
    Place("function default", "helper()", top="def helper(v={v}):\n    return v", write="helper.__defaults__ = ({v},)"),
    Place("closure", "GET()", top="GET, PUT = cell({v})", write="PUT({v})"),
    Place("closure of a list", "GET()[0]", top="GET, PUT = cell([{v}])"),
    Place("closure in an attribute", "{o}.get()", "self.get, self.put = cell({v})", write="{o}.put({v})"),
    Place("lambda", "{o}.get()", "self.get = lambda: BOX['v']", "BOX = {{'v': {v}}}", write="BOX['v'] = {v}"),
    Place("global", "VALUE", top="VALUE = {v}", write="globals()['VALUE'] = {v}"),
    Place("global, by a function", "helper()", top="VALUE = {v}\n\n\ndef helper():\n    return VALUE",
          write="globals()['VALUE'] = {v}"),
    Place("global dict", "BOX['v']", top="BOX = {{'v': {v}}}"),
    Place("global object", "THING.v", top="THING = Thing({v})"),
    Place("other module", "settings.v", top="settings = types.ModuleType('settings')\nsettings.v = {v}"),
    Place("partial", "{o}.part()", "self.part = functools.partial(same, {v})",
          write="{o}.part = functools.partial(same, {v})"),
    Place("partial's keyword", "{o}.part()", "self.part = functools.partial(same, v={v})",
          write="{o}.part.keywords['v'] = {v}"),
    Place("context variable", "CONTEXT.get()", top="CONTEXT = contextvars.ContextVar('v')\nCONTEXT.set({v})",
          write="CONTEXT.set({v})"),
    Place("iterator", "next({o}.cycle)", "self.cycle = itertools.repeat({v})", write="{o}.cycle = itertools.repeat({v})"),
    Place("environment", "float(os.environ['FUZZ_V'])", top="os.environ['FUZZ_V'] = str({v})",
          write="os.environ['FUZZ_V'] = str({v})", numbers_only=True),
    Place("numpy", "float({o}.numbers[1])", "self.numbers = np.array([0.0, {v}])", write="{o}.numbers[1] = {v}",
          numbers_only=True),
    Place("numpy in a list", "float({o}.row[0][1])", "self.row = [np.array([0.0, {v}])]", write="{o}.row[0][1] = {v}",
          numbers_only=True),
    Place("global numpy", "float(NUMBERS[0])", top="NUMBERS = np.array([{v}, 1.0])", write="NUMBERS[0] = {v}",
          numbers_only=True),
    Place("array", "{o}.numbers[0]", "self.numbers = array.array('d', [{v}])", numbers_only=True),
    Place("length of a list", "(1.0 + len({o}.row))", "self.row = [0] * int(2 * {v})", write="{o}.row.append(0)",
          numbers_only=True),
    Place("set", "(0.5 if 'k' in {o}.names else 1.5)", "self.names = {{'k', {v}}}", write="{o}.names.discard('k')",
          numbers_only=True),
)  # fmt: skip


@dataclass(frozen=True)
class Kind:
    """What a value is, and what is done with it; {r} is what reads it."""

    values: tuple[str, ...]
    uses: tuple[str, ...]
    changed: tuple[str, ...] = ()
    """How it is changed where it stands."""


NUMBER: Final = "number"
KINDS: Final[Mapping[str, Kind]] = {
    NUMBER: Kind(("0.5", "1.5", "2.0", "1.0"), ("x = x * {r}", "x = x + {r}", "x = F.leaky_relu(x, {r})")),
    "tensor": Kind(
        ("torch.tensor(0.5)", "torch.tensor(1.5)", "torch.full((8,), 0.5)", "torch.linspace(0, 1, 8)"),
        ("x = x * {r}", "x = x + {r}", "x = torch.where(x > {r}, x, x.sin())", "x = torch.sigmoid(x * {r}) + {r}"),
        ("{r}.mul_(2)", "{r}.fill_(0.25)", "{r}.copy_({r} + 1)", "{r}.data = {r} + 1", "{r}.data.add_(1)",
         "{r}.numpy()[...] = 3.0"),
    ),
    "one of 1": Kind(("torch.ones(1)", "torch.zeros(1)"), ("x = x * {r}", "x = x - {r}"), ("{r}[0] = 0.5", "{r}.neg_()")),
    "flag": Kind(("True", "False"), ("x = F.gelu(x) if {r} else torch.tanh(x)", "if not {r}:\n    x = x.exp().log1p()")),
    "count": Kind(("1", "2", "3"), ("for _ in range({r}):\n    x = torch.sin(x)", "x = x.roll({r}, 1)", "x = x * {r}")),
    "name": Kind(("'tanh'", "'sin'", "'sigmoid'"), ("x = getattr(torch, {r})(x)",)),
    "function": Kind(("torch.tanh", "torch.sin", "F.gelu"), ("x = {r}(x)",)),
    "maybe": Kind(("None", "0.5"), ("x = x if {r} is None else x * {r}",)),
    "module": Kind(("nn.Tanh()", "nn.Dropout(0.3)", "nn.Hardtanh(-0.5, 0.5)"), ("x = {r}(x)",)),
    "dtype": Kind(("torch.float32", "torch.float64", "torch.bfloat16"), ("x = x.to({r}).tanh().to(torch.float32)",)),
    "list": Kind(("[1, 2]", "[0.5, 2]"), ("for each in {r}:\n    x = x * each", "x = x + sum({r})"),
                 ("{r}.append(0.5)", "{r}[0] = 3", "{r}.clear()")),
}  # fmt: skip


@dataclass(frozen=True)
class Part:
    """Something that a network or its loop does; all texts but `top` are code of the place that they are named for."""

    forward: str = ""
    init: str = ""
    top: str = ""
    before: str = ""
    between: str = ""
    after: str = ""
    world: str = ""
    """An expression: the context of the forward pass."""
    state: str = ""
    always: bool = False
    """What the loop does, it does in each step, not once."""


BATCHED: Final = "self.a, self.b = nn.Sequential(self.a, nn.BatchNorm1d(8{})), self.b"
RANDOM: Final = (
    Part("torch.manual_seed(3)\nx = F.dropout(x, 0.2)"),
    Part("x = F.dropout(x, 0.2)\ntorch.manual_seed(3)"),
    Part("with torch.random.fork_rng():\n    torch.manual_seed(5)\n    x = x + torch.rand_like(x)"),
    Part("with torch.random.fork_rng():\n    x = F.dropout(x, 0.4)"),
    Part("kept = torch.get_rng_state()\nx = F.dropout(x, 0.3)\ntorch.set_rng_state(kept)\nx = F.dropout(x, 0.3)"),
    Part("x = x + torch.rand(8, generator=self.chance)", "self.chance = torch.Generator().manual_seed(1)"),
    Part("x = x * (torch.initial_seed() % 7)"),
    Part("torch.default_generator.manual_seed(9)\nx = x * torch.rand(8)"),
    Part("x = x * random.random()"),
    Part("x = x * np.random.rand()"),
    Part("x = x * torch.from_numpy(np.random.rand(8)).float()"),
    Part("if random.random() < 0.5:\n    x = torch.tanh(x)"),
    Part("if torch.rand(()) < 0.5:\n    x = torch.tanh(x)"),
    Part("x = x * self.chance.random()", "self.chance = random.Random(1)"),
    Part("x = x * self.chance.random()", "self.chance = np.random.default_rng(1)"),
    Part("x = F.dropout(x, 0.3) + torch.randn_like(x)"),
    Part("x = F.alpha_dropout(x, 0.3, self.training)"),
    Part("x = F.rrelu(x, training=self.training)"),
    Part("x = x + torch.bernoulli(torch.full_like(x, 0.5))"),
    Part("x = x * (time.perf_counter_ns() % 1000)"),
    Part("x = F.dropout(x, 0.2)", after="torch.manual_seed(11)"),
    Part("x = F.dropout(x, 0.2)", between="torch.manual_seed(11)"),
    Part("x = F.dropout(x, 0.2)", between="torch.rand(3)", always=True),
)
CHECKPOINTS: Final = (
    Part("x = checkpoint(self.c, x, use_reentrant=False)", "self.c = Block(8)"),
    Part("x = checkpoint(self.c, x, use_reentrant=True)", "self.c = Block(8)"),
    Part("x = checkpoint(self.c, x, use_reentrant=False, preserve_rng_state=False)", "self.c = Block(8)"),
    Part("x = checkpoint(self.c, x, use_reentrant=False)", "self.c = nn.Sequential(nn.BatchNorm1d(8), nn.ReLU())"),
    Part("x = checkpoint(self.part, x, use_reentrant=False)", "self.c, self.part = Block(8), lambda x: self.c(x) * SCALE",
         "SCALE = 1.0", between="globals()['SCALE'] = 2.0"),
    Part("x = checkpoint(lambda x: torch.sin(x) * torch.sigmoid(x * self.t), x, use_reentrant=False)",
         "self.t = torch.full((8,), 0.5)", between="net.t.mul_(2)"),
    Part("x = Replayed.apply(x)"),
)  # fmt: skip
NORMS: Final = (
    Part(init=BATCHED.format("")),
    Part(init=BATCHED.format(", momentum=None")),
    Part(init=BATCHED.format(", track_running_stats=False")),
    Part(init=BATCHED.format(""), after="net.a[1].momentum = 0.5"),
    Part(init=BATCHED.format(""), after="net.a[1].eps = 0.5"),
    Part(init=BATCHED.format(""), after="net.a[1].reset_running_stats()"),
    Part(init=BATCHED.format(""), after="net.a[1].eval()"),
    Part(init=BATCHED.format(""), between="net.a[1].running_mean.add_(1)"),
    Part(init=BATCHED.format(""), after="with torch.no_grad():\n    net(torch.ones(4, 8))", always=True),
)
BUFFERS: Final = (
    Part("self.count.add_(1)\nx = x * self.count", "self.register_buffer('count', torch.zeros(()))"),
    Part("self.count += 1", "self.register_buffer('count', torch.zeros((), dtype=torch.long))"),
    Part("self.mean.mul_(0.9).add_(x.detach().mean(0), alpha=0.1)\nx = x - self.mean",
         "self.register_buffer('mean', torch.zeros(8))"),
    Part("self.mean = 0.9 * self.mean + 0.1 * x.detach().mean(0)\nx = x - self.mean",
         "self.register_buffer('mean', torch.zeros(8))"),
    Part("x = x + self.mean\nself.mean.copy_(x.detach().mean(0))", "self.register_buffer('mean', torch.zeros(8), False)"),
    Part("x = x * self.scale", "self.register_buffer('scale', torch.ones(8))", after="net.scale.mul_(2)"),
    Part("x = x + self.scale", "self.register_buffer('scale', torch.ones(8))", between="net.scale.mul_(2)"),
    Part("x = F.gelu(x + self.scale)", "self.register_buffer('scale', torch.ones(8))", between="net.scale.data.mul_(2)"),
    Part("x = x * self.scale", "self.register_buffer('scale', torch.ones(8))", after="net.scale = torch.zeros(8)"),
    Part("x = x * self.scale", "self.register_buffer('scale', torch.ones(8))", after="net.scale = torch.zeros(1)"),
    Part("x = x + self.table[self.at]\nself.at = (self.at + 1) % 3",
         "self.register_buffer('table', torch.arange(24.0).view(3, 8))\nself.at = 0"),
    Part("if self.ready.item():\n    x = torch.tanh(x)", "self.register_buffer('ready', torch.tensor(False))",
         after="net.ready.fill_(True)"),
)  # fmt: skip
KEPT: Final = (
    Part("self.cache = x.detach()", state="net.cache", init="self.cache = None"),
    Part("x = x if self.cache is None else x + self.cache.mean(0)\nself.cache = x.detach()", "self.cache = None"),
    Part("self.seen.append(x.mean().item())", "self.seen = []", state="net.seen"),
    Part("self.seen.append(x.detach())", "self.seen = []", state="net.seen"),
    Part("self.count += 1", "self.count = 0", state="net.count"),
    Part("self.count += 1\nx = x * self.count", "self.count = 0", state="net.count"),
    Part("self.log['calls'] = self.log.get('calls', 0) + 1", "self.log = {}", state="net.log"),
    Part("global CALLS\nCALLS += 1", top="CALLS = 0", state="CALLS"),
    Part("global CALLS\nCALLS += 1\nx = x * CALLS", top="CALLS = 0", state="CALLS"),
    Part("type(self).calls += 1", top="Base.calls = 0", state="type(net).calls"),
    Part("SEEN.append(x.shape[0])", top="SEEN = []", state="SEEN"),
    Part("helper_of_calls.calls += 1", top="def helper_of_calls():\n    pass\n\n\nhelper_of_calls.calls = 0",
         state="helper_of_calls.calls"),
    Part("x = x * next(self.counter)", "self.counter = itertools.count(1)"),
    Part("self.queue.append(self.queue.popleft())\nx = x * self.queue[0]", "self.queue = collections.deque([1.0, 2.0, 0.5])",
         state="list(net.queue)"),
    Part("self.t.mul_(0.5)\nx = x * self.t", "self.t = torch.ones(8)", state="net.t"),
    Part("self.box['t'].add_(x.detach().mean(0))\nx = x + self.box['t']", "self.box = {'t': torch.zeros(8)}",
         state="net.box['t']"),
    Part("HISTORY.add_(1)\nx = x + HISTORY", top="HISTORY = torch.zeros(8)", state="HISTORY"),
    Part("os.environ['FUZZ_N'] = str(int(os.environ.get('FUZZ_N', '0')) + 1)", state="os.environ.get('FUZZ_N')"),
    Part("self.numbers[0] += 1\nx = x * float(self.numbers[0])", "self.numbers = np.zeros(2)", state="net.numbers"),
    Part("self.numbers[...] = x.detach().mean(0).numpy()", "self.numbers = np.zeros(8)", state="net.numbers"),
    Part("x = memo(x)", top="@functools.cache\ndef factor():\n    return VALUE_OF_MEMO\n\n\nVALUE_OF_MEMO = 2.0\n\n\n"
         "def memo(x):\n    return x * factor()", after="globals()['VALUE_OF_MEMO'] = 3.0"),
)  # fmt: skip
HOOKS: Final = (
    Part(init="self.a.register_forward_hook(lambda m, i, out: out * 2)"),
    Part(init="self.a.register_forward_pre_hook(lambda m, i: (i[0] + 1,))"),
    Part(init="self.a.register_full_backward_hook(lambda m, i, o: (i[0] * 2,))"),
    Part(init="self.a.register_full_backward_hook(lambda m, i, o: (i[0] * FACTOR,))", top="FACTOR = 2.0",
         after="globals()['FACTOR'] = 3.0"),
    Part(init="self.a.register_forward_hook(lambda m, i, out: out * SCALED['v'])", top="SCALED = {'v': 2.0}",
         after="SCALED['v'] = 3.0"),
    Part(init="self.a.register_forward_hook(lambda m, i, out: NOTES.append(out.detach().mean()))", top="NOTES = []",
         state="NOTES"),
    Part(after="net.a.register_forward_hook(lambda m, i, out: out * 2)"),
    Part(after="net.register_forward_hook(lambda m, i, out: out * 2)"),
    Part(after="net.b.register_forward_pre_hook(lambda m, i: (i[0] + 1,))"),
    Part(after="net.a.register_full_backward_hook(lambda m, i, o: (i[0] * 2,))"),
    Part(after="net.register_full_backward_hook(lambda m, i, o: (i[0] * 2,))"),
    Part(init="self.handle = self.a.register_forward_hook(lambda m, i, out: out * 2)", after="net.handle.remove()"),
    Part(after="nn.modules.module.register_module_forward_hook(lambda m, i, out: out * 1.5 if torch.is_tensor(out) else out)"),
    Part(after="nn.modules.module.register_module_forward_pre_hook(lambda m, i: (i[0] * 1.5,))"),
    Part(after="nn.modules.module.register_module_full_backward_hook(lambda m, i, o: (i[0] * 2,) if i[0] is not None else None)"),
    Part(before="nn.modules.module.register_module_forward_hook(lambda m, i, out: out * 1.5)"),
    Part(init="self.a.up.weight.register_hook(lambda g: g * 2)"),
    Part(after="net.a.up.weight.register_hook(lambda g: g * 2)"),
    Part(init="self.a.up.weight.register_post_accumulate_grad_hook(lambda p: p.grad.mul_(0.5))"),
    Part("x.register_hook(lambda g: g * 2)"),
    Part("x.register_hook(lambda g: g * FACTOR_OF_HOOK)", top="FACTOR_OF_HOOK = 2.0",
         after="globals()['FACTOR_OF_HOOK'] = 3.0"),
    Part("x = Scaled.apply(x)", between="Scaled.factor = 3.0"),
    Part("x = Scaled.apply(x)", after="Scaled.factor = 3.0"),
    Part(between="out.register_hook(lambda g: g * 2)"),
)  # fmt: skip
MODES: Final = (
    Part("x = x * 2 if self.training else x", after="net.eval()"),
    Part(after="net.a.eval()"),
    Part(after="net.a.drop.p = 0.5"),
    Part(after="net.a.norm.eps = 0.5"),
    Part(after="net.a.requires_grad_(False)"),
    Part(after="net.b.requires_grad_(False)"),
    Part(after="net.a.up.bias.requires_grad_(False)"),
    Part(before="net.a.requires_grad_(step % 2 == 0)", always=True),
    Part(init="self.a.requires_grad_(False)", after="net.a.requires_grad_(True)"),
    Part("x = x if self.a.up.weight.requires_grad else x * 2", after="net.a.up.weight.requires_grad_(False)"),
    Part("with torch.no_grad():\n    y = torch.tanh(x)\nx = x + y"),
    Part("x = x * 2 if torch.is_grad_enabled() else x", after="with torch.no_grad():\n    net(torch.ones(4, 8))", always=True),
    Part("x = self.act(x)", "self.act = nn.Tanh()", after="net.act = nn.Sigmoid()"),
    Part(after="net.a, net.b = net.b, net.a"),
    Part(after="net.a.forward = lambda x: x * 2"),
    Part(after="type(net.a).forward = lambda self, x: self.down(self.up(x))"),
    Part(after="net.a.up.weight = nn.Parameter(net.a.up.weight.detach() + 1)"),
    Part(after="net.a.up.weight.data = net.a.up.weight.data + 1"),
    Part(between="net.a.up.weight.data.add_(1)"),
    Part(between="net.b.down.bias.data.add_(1)"),
    Part(between="with torch.no_grad():\n    net.b.down.bias.add_(1)"),
    Part(after="net.load_state_dict({k: v * 0.5 for k, v in net.state_dict().items()})"),
    Part(init="self.b.up = self.a.up"),
    Part(init="self.b.up.weight = self.a.up.weight"),
    Part("x = F.linear(torch.tanh(self.a.up(x)), self.a.up.weight.t())"),
    Part(init="self.b.up.weight = self.a.up.weight", after="net.b.up.weight = nn.Parameter(net.a.up.weight.detach().clone())"),
    Part(init="nn.utils.parametrizations.weight_norm(self.a.up)"),
    Part(init="nn.utils.parametrizations.spectral_norm(self.a.up)"),
    Part(init="self.a.up = nn.utils.spectral_norm(self.a.up)"),
    Part(after="net.layers = nn.ModuleList([nn.Tanh()])"),
    Part("for layer in self.layers:\n    x = layer(x)", "self.layers = nn.ModuleList([nn.Tanh()])",
         after="net.layers.append(nn.Tanh())"),
    Part("for layer in self.layers:\n    x = layer(x)", "self.layers = [nn.Tanh()]", after="net.layers.append(nn.Sigmoid())"),
)  # fmt: skip
WORLD: Final = (
    Part(world="torch.autocast('cpu', torch.bfloat16)", always=True),
    Part(world="torch.autocast('cpu', torch.bfloat16)"),
    Part(world="torch.autocast('cpu', torch.bfloat16 if step != 2 else torch.float16)", always=True),
    Part("with torch.autocast('cpu', torch.bfloat16):\n    x = self.b(x)\nx = x.float()"),
    Part("x = x * 2 if torch.is_autocast_enabled('cpu') else x", world="torch.autocast('cpu', torch.bfloat16)"),
    Part(world="torch.autocast('cpu', torch.bfloat16, cache_enabled=False)", always=True),
    Part("x = (x + torch.full((8,), 0.1)).float()", after="torch.set_default_dtype(torch.float64)"),
    Part("x = (x + torch.full((8,), 0.1)).float()", before="torch.set_default_dtype(torch.float64)"),
    Part("x = (x + torch.ones(8) / 3).float()", between="torch.set_default_dtype(torch.float64)"),
    Part("x = x * 2 if torch.get_default_dtype() == torch.float32 else x", after="torch.set_default_dtype(torch.float64)"),
    Part(after="torch.use_deterministic_algorithms(True)"),
    Part("x = x * 2 if torch.are_deterministic_algorithms_enabled() else x", after="torch.use_deterministic_algorithms(True)"),
    Part(after="torch.set_flush_denormal(True)"),
    Part("x = x * torch.get_num_threads()", after="torch.set_num_threads(2)"),
    Part("q = x.view(1, 1, -1, 8)\nx = F.scaled_dot_product_attention(q, q, q).view(-1, 8)",
         world="torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH)"),
    Part(world="torch.autograd.set_detect_anomaly(True)"),
    Part(world="torch.autograd.graph.saved_tensors_hooks(lambda t: t * 2, lambda t: t)"),
    Part(world="torch.set_grad_enabled(True)"),
    Part("x = x * float(self.factor)", "self.factor = np.float32(0.5)", after="net.factor = np.float32(0.25)"),
    Part("x = x * (1.0 if sys.flags.optimize else len(sys.argv))", after="sys.argv = [*sys.argv, 'more']"),
    Part("x = x * warnings_of()", top="def warnings_of():\n    return 1.0 + len(LEVELS)\n\n\nLEVELS = []",
         after="LEVELS.append(1)"),
)  # fmt: skip
PARTS: Final[Mapping[str, Sequence[Part]]] = {
    "random": RANDOM, "checkpoints": CHECKPOINTS, "norms": NORMS, "buffers": BUFFERS, "kept": KEPT, "hooks": HOOKS,
    "modes": MODES, "world": WORLD,
}  # fmt: skip

LOOPS: Final = (
    "plain", "plain", "plain", "plain", "two forwards", "accumulated", "changed output", "input with gradient",
    "changed input", "smaller batch", "one row", "eval between", "same input",
)  # fmt: skip
"""Ways in which the loop calls the network."""

HEAD: Final = """import array
import collections
import contextlib
import contextvars
import dataclasses
import functools
import itertools
import os
import random
import sys
import time
import types

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

LOOP = {loop!r}


class Thing:
    def __init__(self, v):
        self.v = v


class Slots:
    __slots__ = ("v",)

    def __init__(self, v):
        self.v = v


class Late:
    def __init__(self, v):
        self.table = {{"v": v}}

    def __getattr__(self, name):
        return self.table[name]


Point = collections.namedtuple("Point", "v")


@dataclasses.dataclass
class Config:
    v: object


def same(v):
    return v


def cell(v):
    def put(new):
        nonlocal v
        v = new

    return lambda: v, put


class Scaled(torch.autograd.Function):
    factor = 2.0

    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        return grad * Scaled.factor


class Replayed(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.random = torch.get_rng_state()
        ctx.save_for_backward(x)
        return F.dropout(x, 0.3)

    @staticmethod
    def backward(ctx, grad):
        with torch.random.fork_rng():
            torch.set_rng_state(ctx.random)
            return F.dropout(grad, 0.3)


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(width), nn.Linear(width, 16), nn.Linear(16, width)
        self.drop = nn.Dropout({dropout})

    def forward(self, x):
        return x + self.drop(self.down(F.gelu(self.up(self.norm(x)))))


class Base(nn.Module):
    pass
"""
"""What each file has; {loop} and {dropout} differ."""


@dataclass
class _Draft:
    """The pieces of a file, as they are drawn."""

    top: list[str] = field(default_factory=list)
    body: list[str] = field(default_factory=list)
    init: list[str] = field(default_factory=list)
    forward: list[str] = field(default_factory=list)
    before: list[str] = field(default_factory=list)
    between: list[str] = field(default_factory=list)
    after: list[str] = field(default_factory=list)
    world: list[str] = field(default_factory=list)
    state: list[str] = field(default_factory=list)

    def text(self, chance: random.Random) -> str:
        """The file."""
        work = ["x = self.a(x)", "x = self.b(x)"]
        for part in self.forward:
            work.insert(chance.randint(0, len(work)), part)
        sections = [
            HEAD.format(loop=chance.choice(LOOPS), dropout=chance.choice((0.0, 0.0, 0.1))), *self.top,
            "class Net(Base):\n" + _indented([
                *self.body,
                "def __init__(self):\n" + _indented(["super().__init__()", "self.a, self.b = Block(8), Block(8)", *self.init]),
                "def forward(self, x):\n" + _indented([*work, "return x"]),
            ]),
            *(f"def {name}(net, step{', out' if name == 'between' else ''}):\n" + _indented(getattr(self, name) or ["pass"])
              for name in ("before", "between", "after")),
            "def world(step):\n" + _indented(["stack = contextlib.ExitStack()", *self.world, "return stack"]),
            "def state(net):\n" + _indented([f"return [{', '.join(self.state)}]"]),
            "def make():\n" + _indented(["return Net()"]),
        ]  # fmt: skip
        return "\n\n\n".join(sections) + "\n"


def _indented(parts: Sequence[str]) -> str:
    return "\n".join("    " + line if line else "" for part in parts for line in part.split("\n"))


def source(chance: random.Random) -> str:
    """The source of a random module."""
    draft = _Draft()
    for _ in range(chance.choice((0, 1, 1, 1, 2))):
        _add_value(draft, chance)
    for _ in range(chance.choice((0, 1, 1, 2)) or not draft.forward):
        _add_part(draft, chance.choice(PARTS[chance.choice([*PARTS])]), chance)
    return draft.text(chance)


def _add_value(draft: _Draft, chance: random.Random) -> None:
    """A value that is read, and most times another one later."""
    place = chance.choice(PLACES)
    kind = KINDS[NUMBER if place.numbers_only or chance.random() < 0.3 else chance.choice([*KINDS])]  # noqa: PLR2004
    one, other = chance.choice(kind.values), chance.choice(kind.values)
    draft.top += [place.top.format(v=one)] * bool(place.top)
    draft.body += [place.body.format(v=one)] * bool(place.body)
    draft.init += [place.init.format(v=one)] * bool(place.init)
    draft.forward.append(chance.choice(kind.uses).format(r=place.read.format(o="self")))
    draft.state.append(place.read.format(o="net"))
    if chance.random() < 0.15:  # noqa: PLR2004
        return
    if kind.changed and chance.random() < 0.6:  # noqa: PLR2004
        text = chance.choice(kind.changed)
        change, own = (text.format(r=place.read.format(o=o)) for o in ("net", "self"))
    else:
        change, own = (place.assigned.format(o=o, v=other) for o in ("net", "self"))
    if chance.random() < 0.15:  # noqa: PLR2004
        draft.forward.append(own)
    else:
        _at_some_step(draft, chance.choice(("before", "between", "after")), change, chance)


def _add_part(draft: _Draft, part: Part, chance: random.Random) -> None:
    for name in ("top", "init", "forward", "state"):
        text = getattr(part, name)
        if text and text not in getattr(draft, name):
            getattr(draft, name).append(text)
    for name in ("before", "between", "after"):
        text = getattr(part, name)
        if text and part.always:
            getattr(draft, name).append(text)
        elif text:
            _at_some_step(draft, name, text, chance)
    if part.world:
        enter = f"stack.enter_context({part.world})"
        draft.world.append(enter if part.always else _guarded(chance.randrange(STEPS), enter))


def _at_some_step(draft: _Draft, where: str, text: str, chance: random.Random) -> None:
    getattr(draft, where).append(_guarded(chance.randrange(1 if where == "before" else 0, STEPS - 1), text))


def _guarded(step: int, text: str) -> str:
    return f"if step == {step}:\n" + _indented([text])
