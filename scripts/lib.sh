# shellcheck shell=bash
# What the scripts beside this file share. Sourced by each of them, never run.

# The scripts work from any folder: everything below is relative to the checkout.
ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
VENV=$ROOT/.venv
# The one folder outside the checkout that is written to.
CACHE=${FAIR_SHARE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/fair-share}

# Without bytecode every start of Home Assistant compiles itself anew (6 to 19 s of CPU).
unset PYTHONDONTWRITEBYTECODE

say() { printf '[%3ds] %s\n' "$SECONDS" "$*" >&2; }

die() {
    printf 'error: %s\n' "$*" >&2
    exit 1
}
