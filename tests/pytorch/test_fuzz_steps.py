"""A sample of random networks that read and change state: a plan is equal to them, or refused."""

from __future__ import annotations

import fuzz_steps
import pytest
import step_modules

pytestmark = pytest.mark.filterwarnings("ignore")
SAMPLE = 12


@pytest.mark.few(4)
@pytest.mark.parametrize("number", range(SAMPLE))
def test_a_random_step_is_equal_or_refused(tmp_path, number):
    path, _, result = fuzz_steps.judged(tmp_path, 7, number)
    assert result.kind != fuzz_steps.FINDING, f"{result}\n{path.read_text()}"


HEAD = step_modules.HEAD.format(loop="plain", dropout=0.1)
NET = """

class Net(Base):
    def __init__(self):
        super().__init__()
        self.a, self.b = Block(8), Block(8)
        {init}

    def forward(self, x):
        x = self.b(self.a(x))
        {forward}
        return x


def before(net, step):
    pass


def between(net, step, out):
    pass


def after(net, step):
    {after}


def world(step):
    return contextlib.nullcontext()


def state(net):
    return [{state}]


def make():
    return Net()
"""
"""The rest of a file, as they are drawn."""


NUMBER = {"init": "self.v = 1.0", "forward": "x = x * self.v", "after": "net.v = 2.0 if step == 1 else net.v"}
FILE = {
    "forward": "x = x * float(open(__file__ + '.txt').read())", "after": "open(__file__ + '.txt', 'w').write(str(step))"
}  # fmt: skip


@pytest.mark.parametrize(
    ("parts", "kind"), [({}, fuzz_steps.EQUAL), (NUMBER, fuzz_steps.REFUSED), (FILE, fuzz_steps.FINDING)]
)
def test_the_fuzz_tells_what_is_equal_refused_and_different(tmp_path, parts, kind):
    path = tmp_path / "module.py"
    path.write_text(HEAD + NET.format(**{"init": "pass", "forward": "pass", "after": "pass", "state": "", **parts}))
    (tmp_path / "module.py.txt").write_text("3")
    wanted = fuzz_steps.eager(path)
    (tmp_path / "module.py.txt").write_text("3")
    for way in ("install", "module", "plans"):
        (tmp_path / "module.py.txt").write_text("3")
        result = fuzz_steps.outcome(path, wanted, way, dict(fuzz_steps.QUICK))
        assert result.kind == kind, result
