#!/bin/sh
# Sets up what is missing: a virtual environment in .venv with this package, and MiniZinc.
# Python is 3.11 or newer; MiniZinc is installed where it is not on PATH (apt-get on Debian and Ubuntu, as root or with
# sudo; Homebrew on macOS). With "tests", after that: the test tools, and all searches compiled. Run by make.
set -eu
cd "$(dirname "$0")/.."
python=${PYTHON:-python3}

say() { echo "setup: $*" >&2; }
fail() { say "$*"; exit 2; }

as_root() {
    if [ "$(id -u)" = 0 ]; then "$@"
    elif command -v sudo >/dev/null; then sudo "$@"
    else fail "root or sudo is needed to run: $*"
    fi
}

# install DEBIAN_PACKAGES HOMEBREW_FORMULA
install() {
    say "installing $1"
    if command -v apt-get >/dev/null; then
        as_root apt-get update -qq
        # shellcheck disable=SC2086  # several packages
        as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $1 >/dev/null
    elif command -v brew >/dev/null; then
        brew install --quiet "$2"
    else
        fail "neither apt-get nor brew is here: install $1 by hand, then run make again"
    fi
}

if [ "${1:-}" = tests ]; then
    say "installing what tests need into .venv, and compiling the searches"
    .venv/bin/python -m pip install --quiet --disable-pip-version-check --editable '.[test]'
    .venv/bin/python -m moccasin_mzn compile >/dev/null
    touch .venv/tested
    exit
fi

command -v "$python" >/dev/null || install "python3 python3-venv" python@3.12
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
    fail "$python is older than 3.11; name a newer one: make PYTHON=python3.12"
command -v minizinc >/dev/null || install minizinc minizinc

if ! [ -x .venv/bin/python ]; then
    if ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
        version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
        install "python$version-venv" "python@$version"
    fi
    say "creating .venv"
    "$python" -m venv .venv
fi
say "installing the package into .venv"
.venv/bin/python -m pip install --quiet --disable-pip-version-check --editable '.[plot]'
touch .venv/ready
