#!/bin/sh
# Installs MiniZinc 2.10 as WebAssembly, next to any other MiniZinc, for `solve --solver`.
# It is the npm package minizinc, with Gecode 6.4, Chuffed, HiGHS and COIN-BC, and goes into the Python environment of
# this package, share/moccasin_mzn/drivers/, where the package finds it; nothing else is touched. Needs Node.js 18 or newer, npm and once the network. Run by make.
#
#     sh scripts/install_solvers.sh             into .venv
#     PYTHON=python3 sh scripts/install_solvers.sh    into the environment of another Python
#     sh scripts/install_solvers.sh --remove
set -eu
cd "$(dirname "$0")/.."
python=${PYTHON:-.venv/bin/python}

version=4.5.1
integrity=sha512-ExVUoX/Vqo+Ez5Tch3Wr14ktFAFDMBIiRjAmr6uZ7aXnvFO67mfgu3/cvgTZkTupGxYfVUHeRuU309QayLuhZg==

say() { echo "install_solvers: $*" >&2; }
fail() { say "$*"; exit 2; }

prefix=$("$python" -c 'import sys; print(sys.prefix)' 2>/dev/null) ||
    fail "$python does not run; make sets up .venv, or name another Python: PYTHON=python3"
drivers=$prefix/share/moccasin_mzn/drivers
target=$drivers/minizinc-wasm

if [ "${1:-}" = --remove ]; then
    rm -rf "$target"
    say "removed $target"
    exit 0
fi
[ $# = 0 ] || fail "unknown argument $1; there is only --remove"

command -v node >/dev/null || fail "Node.js is not on PATH: install it (apt-get install nodejs npm, or brew install node)"
command -v npm >/dev/null || fail "npm is not on PATH: install it (apt-get install npm, or brew install node)"
node -e 'process.exit(parseInt(process.versions.node) < 18 ? 1 : 0)' || fail "Node.js $(node --version) is older than 18"

installed=$(sed -n 's/^ *"version": "\(.*\)",*$/\1/p' "$target/node_modules/minizinc/package.json" 2>/dev/null || true)
if [ "$installed" = "$version" ] && cmp -s scripts/minizinc-wasm.cjs "$target/minizinc-wasm.cjs" &&
    [ -x "$target/minizinc" ] && [ -s "$target/solvers.json" ] && [ -s "$target/version.txt" ]; then
    say "$target is up to date"
    exit 0
fi

mkdir -p "$drivers" 2>/dev/null || fail "$drivers cannot be made"
draft=$(mktemp -d "$drivers/.draft-XXXXXX")
trap 'rm -rf "$draft"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

if [ "$installed" = "$version" ]; then
    cp -R "$target/node_modules" "$draft/node_modules"
else
    say "fetching the npm package minizinc $version"
    echo "{\"private\": true, \"dependencies\": {\"minizinc\": \"$version\"}}" >"$draft/package.json"
    cat >"$draft/package-lock.json" <<END
{"lockfileVersion": 3, "requires": true, "packages": {
  "": {"dependencies": {"minizinc": "$version"}},
  "node_modules/minizinc": {"version": "$version", "integrity": "$integrity"}
}}
END
    npm ci --prefix "$draft" --ignore-scripts --no-audit --no-fund --no-update-notifier --loglevel=error \
        >"$draft/npm.log" 2>&1 || {
        reason=$(sed -n 's/^npm \(error\|ERR!\) //p' "$draft/npm.log" | grep -v '^code\|^A complete log' | head -n 1)
        fail "npm cannot fetch minizinc $version: ${reason:-$(tail -n 1 "$draft/npm.log")}"
    }
    rm -f "$draft/npm.log"
fi

cp scripts/minizinc-wasm.cjs "$draft/"
# MiniZinc's users look for an executable of this name. exec: a signal must reach node itself.
cat >"$draft/minizinc" <<'END'
#!/bin/sh
exec node "$(dirname "$(readlink -f "$0")")/minizinc-wasm.cjs" "$@"
END
chmod +x "$draft/minizinc"
"$draft/minizinc" --version >"$draft/version.new" || fail "MiniZinc does not run as WebAssembly in Node.js $(node --version)"
"$draft/minizinc" --solvers-json >"$draft/solvers.new"
mv "$draft/version.new" "$draft/version.txt" # from now on the answers to these two questions, which take no start then
mv "$draft/solvers.new" "$draft/solvers.json"
chmod 755 "$draft"
rm -rf "$target"
mv "$draft" "$target"
say "$(head -n 1 "$target/version.txt" | sed 's/.*version \([^,]*\).*/MiniZinc \1 (WebAssembly)/') is in $target"
