"""What there are several of is entered once: nothing is left out of its registry, and no name is taken twice."""

from __future__ import annotations

import pkgutil
from importlib import import_module

import pytest

from moccasin_mzn import strategies
from moccasin_mzn.api.compare import contenders
from moccasin_mzn.formulations import FORMULATIONS
from moccasin_mzn.formulations.models import models_folder
from moccasin_mzn.graphs import formats
from moccasin_mzn.graphs.generators import architectures
from moccasin_mzn.graphs.generators.catalogue import NETWORKS
from moccasin_mzn.search.catalogue import entries
from moccasin_mzn.search.options import Options
from moccasin_mzn.solvers.linear.configuration import ENGINES
from moccasin_mzn.solvers.minizinc.solvers import OWN


@pytest.mark.parametrize(
    ("package", "attribute"), [(strategies, "STRATEGIES"), (formats, "READER"), (architectures, "NETWORKS")]
)
def test_every_module_with_entries_is_registered(package, attribute):
    found = {found.name for found in pkgutil.iter_modules(package.__path__)}
    telling = {name for name in found if hasattr(import_module(f"{package.__name__}.{name}"), attribute)}
    assert len(telling) > 4 and telling == set(package.MODULES) and len(telling) == len(package.MODULES)


def test_no_name_is_taken_twice():
    networks = [one for name in architectures.MODULES
                for one in import_module(f"{architectures.__name__}.{name}").NETWORKS]  # fmt: skip
    assert len(networks) == len(NETWORKS)
    for names in ([entry.name for entry in entries()], [one.label for one in contenders()], list(OWN)):
        assert len(names) == len(set(names))


@pytest.mark.parametrize("form", FORMULATIONS, ids=lambda form: form.name)
def test_every_formulation_has_its_models_and_can_be_chosen(form):
    assert all(one.file.is_file() for _, one in form.forms())
    assert (models_folder() / form.checker).is_file()
    for told in (form.title, form.source, form.guarantee, *vars(form.growth).values()):
        assert told and told == told.strip() and "\n" not in told
    for variant in form.variants:
        assert Options.of({"formulation": form.name, **variant.options}).form.name == form.name
    for name, option in form.own_options.items():
        assert getattr(form, name) == (option.choices[0] if option.choices else "")


def test_every_engine_has_solve_and_relax():
    for name in ENGINES:
        engine = import_module(f"moccasin_mzn.solvers.linear.{name}")
        assert callable(engine.solve) and callable(engine.relax)
        assert OWN[name].configuration()["executable"][-2:] == ["--engine", name]
