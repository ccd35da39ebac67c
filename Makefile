# Two commands do most: `make solve` and `make test`. Both first set up what is missing.

PYTHON ?= python3
GRAPH ?= data/unet_training.json
BUDGET ?= 0.8
PICTURE ?= build/schedule.html
BIN := .venv/bin
# Recipes read these from the environment, so that blanks and quotes in them mean nothing to make or the shell.
export GRAPH BUDGET PICTURE EXPERIMENT RESULTS
# Tests start hundreds of processes, and each would compile all of the package anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: solve test coverage test-all test-torch test-deploy test-slow golden soak fuzz solvers bench docs lint data clean

solve: .venv/ready
	mkdir -p build
	$(BIN)/python -m moccasin_mzn solve --budget "$$BUDGET" --time-limit 120 --plot "$$PICTURE" -- "$$GRAPH"

# More workers than two cores: many tests wait for processes.
WORKERS ?= 3

test: .venv/tested
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadgroup

# Of tests that only the targets below run: SAMPLE=4 runs one in four of the cases of each, another SAMPLE_SEED others.
SAMPLE ?= 1
SAMPLE_SEED ?= 0
SAMPLED = --sample $(SAMPLE) --sample-seed $(SAMPLE_SEED)

# In addition, all seeds and examples of what is tested by a few of them above, and what was kept derived again.
test-all: test
	$(BIN)/python -m pytest -n $(WORKERS) --hypothesis-profile patient $(SAMPLED) -m '(full or hypothesis) and not slow'

# PyTorch is large, so that only this installs it; the release is the one the tests were written for. ExecuTorch and the
# libraries that train come with it where there are wheels of them. With `TORCH=2.9` the newest 2.9 is tested instead,
# from a folder of its own.
TORCH ?=
test-torch: .venv/tested
ifneq ($(TORCH),)
	test -d build/torch-$(TORCH)/torch || \
	$(BIN)/python -m pip install --quiet --target build/torch-$(TORCH) 'torch==$(TORCH).*'
	PYTHONPATH="$(CURDIR)/build/torch-$(TORCH)" $(BIN)/python -m pytest -n $(WORKERS) --hypothesis-profile patient \
	-m 'not slow' tests/graphs/pytorch tests/pytorch
else
	$(BIN)/python -c 'import torch' 2>/dev/null || $(BIN)/python -m pip install --quiet torch==2.13.0
	$(BIN)/python -c 'import executorch' 2>/dev/null || $(BIN)/python -m pip install --quiet --editable '.[executorch]' || \
	echo "no ExecuTorch: its programs are not run"
	$(BIN)/python -c 'import accelerate, lightning, transformers' 2>/dev/null || \
	$(BIN)/python -m pip install --quiet accelerate lightning transformers || \
	echo "no transformers, Accelerate or Lightning: trainings by them are not run"
	$(BIN)/python -m pytest -n $(WORKERS) --hypothesis-profile patient $(SAMPLED) -m 'not slow' \
	tests/graphs/pytorch tests/pytorch tests/deploy/test_executorch.py 'tests/house/test_example_scripts.py::test_an_example_prints_what_it_shows[train_pytorch.py]'
endif

# LiteRT and TensorFlow Lite Micro, where there are wheels of them: only the tests need the second.
test-deploy: .venv/tested
	if $(BIN)/python -c 'import ai_edge_litert, flatbuffers, tflite_micro' 2>/dev/null || \
	$(BIN)/python -m pip install --quiet --editable '.[tflite]' tflite-micro; then \
	$(BIN)/python -m pytest -n $(WORKERS) $(SAMPLED) -m 'not slow' tests/deploy/test_tflite.py tests/deploy/test_tflite_order.py \
	  tests/deploy/test_tflite_tiling.py && \
	$(BIN)/python -m pytest -n $(WORKERS) tests/deploy/test_c_*.py; else \
	echo "no TensorFlow Lite: its models are not run"; fi

# What `make test` runs of the package, which may not be less than the floor in pyproject.toml.
coverage: .venv/tested
	mkdir -p build/coverage
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadgroup --cov --cov-report=term --cov-report=html:build/coverage/html

test-slow: .venv/tested
	$(BIN)/python -m pytest -n $(WORKERS) --hypothesis-profile patient -m slow

# Gecode's answers that `make test` relies on, derived anew; after a change of our library for MiniZinc or a model of theirs.
golden: .venv/tested
	$(BIN)/python tests/support/golden.py

GRAPHS ?= 1000
SEED ?= 0
KEEP ?= build/soak

# Random graphs, all that can be asked of them, and every answer held against an oracle; findings are kept in KEEP. Then 20
# times as many questions about tiny graphs, with workspaces, several outputs and in place, against an exact oracle.
soak: .venv/tested
	$(BIN)/python scripts/soak.py --graphs $(GRAPHS) --seed $(SEED) --jobs 2 --keep "$(KEEP)"
	$(BIN)/python scripts/soak_exact.py --questions $$((20 * $(GRAPHS))) --seed $(SEED)

RUNS ?= 3000

# Random runs of all compiled searches, compiled with a check of every index.
fuzz: .venv/tested
	NUMBA_BOUNDSCHECK=1 $(BIN)/python scripts/fuzz_compiled.py --runs $(RUNS)

# More solvers: MiniZinc 2.10 as WebAssembly, with Chuffed, Gecode 6.4, COIN-BC and HiGHS. Needs Node.js.
solvers: .venv/ready
	PYTHON=$(BIN)/python sh scripts/install_solvers.sh

EXPERIMENT ?= data/experiments/smoke.toml

# A portfolio comparison, gone on with where it was interrupted, and its report; into RESULTS, or a folder of its name.
bench: .venv/tested
	results="$${RESULTS:-build/$$(basename -- "$$EXPERIMENT" .toml)}" && mkdir -p -- "$$results" && \
	$(BIN)/python -m moccasin_mzn bench run --store "$$results/runs.sqlite" -- "$$EXPERIMENT" && \
	$(BIN)/python -m moccasin_mzn bench report --output "$$results" -- "$$results/runs.sqlite"

# The site, from all pages, notebooks (which it runs) and docstrings; a dead link or a missing anchor is an error. Its search
# works without a server.
docs: .venv/tested
	$(BIN)/python -c 'import furo, myst_nb, sphinx_click, sphinx_copybutton' 2>/dev/null || \
		$(BIN)/python -m pip install --quiet --editable '.[docs]'
	$(BIN)/python -m sphinx --fail-on-warning --keep-going --fresh-env --quiet -c docs . build/site

lint: .venv/tested
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python -m mypy

data: .venv/tested
	$(BIN)/python scripts/make_data.py

# What `make solve` needs; what else tests need.
.venv/ready: pyproject.toml scripts/setup.sh
	PYTHON="$(PYTHON)" sh scripts/setup.sh

.venv/tested: .venv/ready
	sh scripts/setup.sh tests

clean:
	rm -rf .venv
