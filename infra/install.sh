#!/bin/sh
# Creates .venv and installs a lock file's packages into it, verified by hash, then this project. Does nothing if .venv is up to date.
# Usage: infra/install.sh requirements.lock|requirements-dev.lock, in the project's folder. PYTHON chooses another interpreter.
set -eu

lock=$1
venv=.venv
stamp=$venv/installed

fail() {
    printf '%s\n' "$*" >&2
    exit 1
}

# What .venv must match: the locks' content, the project's own entry, and this folder (scripts and links in .venv hold its path).
wanted() {
    cat "$1" pyproject.toml | sha256sum | cut -c 1-64
    pwd -P
}

# The functions that may be compiled. A failure is a notice: everything works without them.
compile_functions() {
    [ providers/wire/native.abi3.so -nt providers/wire/native.c ] || $venv/bin/python -m providers.wire.build || :
}

if [ -x $venv/bin/python ] && [ -f $stamp ] && $venv/bin/python -c 'import click' 2>/dev/null; then
    for each in "$lock" requirements-dev.lock; do # requirements-dev.lock includes requirements.lock
        [ "$(cat $stamp)" = "$(wanted "$each")" ] || continue
        compile_functions 2>/dev/null
        exit 0
    done
fi

old_enough='import sys; sys.exit(sys.version_info < (3, 11))'
python=${PYTHON:-}
for each in ${python:-python3 python3.14 python3.13 python3.12 python3.11}; do
    if command -v "$each" >/dev/null 2>&1 && "$each" -c "$old_enough" 2>/dev/null; then
        python=$(command -v "$each")
        break
    fi
    python=
done
if [ -z "$python" ]; then
    found=$(${PYTHON:-python3} --version 2>&1) || found="no ${PYTHON:-python3}"
    fail "Narthex needs Python 3.11 or newer; found $found. On Debian 12 or newer: apt install python3 python3-venv." \
        "To use another interpreter: make up PYTHON=/path/to/python3.11"
fi
"$python" -c 'import ensurepip, venv' 2>/dev/null ||
    fail "Python's venv module is missing. On Debian: apt install python3-venv (as root), then run the same command again."

printf 'Installing into .venv (once; a minute or so) ...\n' >&2
rm -f $stamp
# An environment of another Python, or of a folder that has moved, is created again; any other is updated.
if [ "$($venv/bin/python -c 'import sys; print(*sys.version_info[:2], sys.prefix)' 2>/dev/null)" != \
    "$("$python" -c 'import sys; print(*sys.version_info[:2])') $(pwd -P)/$venv" ]; then
    rm -rf $venv
    "$python" -m venv $venv
fi
pip() {
    $venv/bin/python -m pip --disable-pip-version-check --no-input "$@"
}
pip install --quiet --require-hashes --no-deps --only-binary :all: -r "$lock" ||
    fail "The packages of $lock could not be installed; pip's message is above. Is the package index reachable?"
pip install --quiet --no-index --no-build-isolation --no-deps --editable .
compile_functions
wanted "$lock" >$stamp
