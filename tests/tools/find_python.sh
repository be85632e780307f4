#!/bin/sh
# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Prints usable Python interpreters, newest first, as lines "MINOR PATH".
#   find_python.sh newest   one line: the newest that can run the tools (3.11 or later); rc 1 and a message if there is none
#   find_python.sh all      one line for each minor version from 3.14 to 3.9
# Usable means: it runs, and has venv and ensurepip. A name on PATH proves nothing: version managers put names there that
# only print an error, and keep the real interpreters in folders that are not on PATH.
set -u

candidates() {
    command -v "python3.$1"
    command -v python3
    command -v python
    for file in "${PYENV_ROOT:-$HOME/.pyenv}"/versions/3."$1".*/bin/python3."$1" \
                "$HOME"/.local/share/uv/python/cpython-3."$1".*/bin/python3."$1" \
                "$HOME"/.local/bin/python3."$1" /usr/local/bin/python3."$1" /usr/bin/python3."$1"; do
        [ -x "$file" ] && echo "$file"
    done
}

# The interpreter behind the name: a venv or a shim may be gone tomorrow.
usable() {
    "$1" -c '
import sys, venv, ensurepip
if sys.version_info[:2] != (3, int(sys.argv[1])):
    raise SystemExit(1)
print(sys.argv[1], getattr(sys, "_base_executable", None) or sys.executable)' "$2" 2>/dev/null
}

first() {
    candidates "$1" | while IFS= read -r file; do
        usable "$file" "$1" && break
    done
}

case "${1:-newest}" in
    newest) minors='14 13 12 11' ;;
    all) minors='14 13 12 11 10 9' ;;
    *) echo "find_python.sh: 'newest' or 'all', not '$1'" >&2; exit 2 ;;
esac

found=''
for minor in $minors; do
    line=$(first "$minor")
    [ -n "$line" ] || continue
    found=yes
    echo "$line"
    [ "${1:-newest}" = all ] || break
done

if [ -z "$found" ]; then
    echo 'No usable Python 3.11 to 3.14 was found: on PATH, in pyenv, in uv, in /usr/local/bin or in /usr/bin.' >&2
    echo 'It must have the modules venv and ensurepip (Debian and Ubuntu: package python3-venv).' >&2
    echo 'If you have one elsewhere: make PYTHON=/path/to/python3 ...' >&2
    exit 1
fi
