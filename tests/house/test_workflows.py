"""Workflows and hooks of the code host run what is there, on every Python that the package says it supports."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
FORMS = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"))
TARGETS = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.M))


def commands(document: dict) -> list[str]:
    return [step["run"] for job in document["jobs"].values() for step in job["steps"] if "run" in step]


@pytest.mark.parametrize("path", [*WORKFLOWS, ROOT / ".ci" / "run"], ids=lambda path: path.name)
def test_make_targets_of_workflows_exist(path):
    text = path.read_text()
    lines = text.splitlines() if path.suffix != ".yml" else "\n".join(commands(yaml.safe_load(text))).splitlines()
    found = [re.match(r"make ([a-z -]+)", line.partition("#")[0].strip()) for line in lines]
    targets = {target for match in found if match for target in match[1].split()}
    assert targets and targets <= TARGETS


def test_tests_run_on_every_supported_python():
    classifiers = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["classifiers"]
    supported = [match[1] for name in classifiers if (match := re.search(r":: (3\.\d+)$", name))]
    jobs = yaml.safe_load((ROOT / ".github" / "workflows" / "tests.yml").read_text())["jobs"]
    assert jobs["test"]["strategy"]["matrix"]["python"] == supported


def test_ci_lints_and_tests():
    workflow = commands(yaml.safe_load((ROOT / ".github" / "workflows" / "tests.yml").read_text()))
    assert {"make lint", "make test", ".ci/run"} <= {command.partition("  #")[0] for command in workflow}
    assert "\nmake lint\n" in (ROOT / ".ci" / "run").read_text()


@pytest.mark.parametrize("path", [path for path in FORMS if path.name != "config.yml"], ids=lambda path: path.name)
def test_issue_forms_have_what_the_host_requires(path):
    form = yaml.safe_load(path.read_text())
    assert {"name", "description", "body"} <= set(form)
    fields = [field for field in form["body"] if field["type"] != "markdown"]
    assert len({field["id"] for field in fields}) == len(fields) > 0
    assert all(field["attributes"]["label"] for field in fields)


def test_hooks_run_what_lint_runs():
    hooks = [hook for repo in yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
             for hook in repo["hooks"]]  # fmt: skip
    assert {"ruff", "ruff-format", "mypy"} <= {hook["id"] for hook in hooks}
    recipe = (ROOT / "Makefile").read_text().partition("\nlint:")[2].partition("\n\n")[0]
    for tool in ("ruff check", "ruff format", "mypy"):
        assert tool in recipe and any(tool in hook.get("entry", "") for hook in hooks)
