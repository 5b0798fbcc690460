# Sourced by tools/matrix and tools/test: makes the program's own Python environment on first use and sets $python.
# One environment a lock, under the user's cache folder; the checkout itself is never written to.

root=$(CDPATH= cd -- "$(dirname -- "$(readlink -f -- "$0")")/.." && pwd -P)
say() { printf 'matrix: %s\n' "$*" >&2; }

if [ -n "${MATRIX_HOME:-}" ]; then
    # Absolute, because tools/test changes folders.
    case $MATRIX_HOME in
        /*) ;;
        *) MATRIX_HOME=$(pwd -P)/$MATRIX_HOME && export MATRIX_HOME ;;
    esac
    cache=$MATRIX_HOME
else
    case "${XDG_CACHE_HOME:-}" in
        /*) cache=$XDG_CACHE_HOME/mlir-matrix ;;
        *)
            if [ -z "${HOME:-}" ]; then
                say "neither HOME nor MATRIX_HOME is set: there is no place for the program's own environment"
                exit 3
            fi
            cache=$HOME/.cache/mlir-matrix
            ;;
    esac
fi

# The first interpreter that is new enough and not too new, or nothing.
find_python() {
    for candidate in ${MATRIX_PYTHON:-python3 python3.11 python3.12 python3.13 python3.14}; do
        if found=$("$candidate" -I -c 'import os, sys
if (3, 11) <= sys.version_info[:2] <= (3, 14) and sys.implementation.name == "cpython": print(os.path.realpath(sys.executable))' 2>/dev/null) && [ -n "$found" ]; then
            printf '%s\n' "$found"
            return
        fi
    done
}

# use_environment LOCK: sets $python to the interpreter of the environment with the packages of tools/LOCK.
use_environment() {
    # An upgrade of the system can make python3 another version, and its real path another one. readlink takes 1 ms, Python 10.
    named=$(readlink -f -- "$(command -v "${MATRIX_PYTHON:-python3}")" || :)
    sum=$({ printf '%s\n' "$named" && cat "$root/tools/$1"; } | cksum)
    environment=$cache/tool/${1%.txt}-${named##*/}-${sum%% *}
    python=$environment/bin/python
    [ -x "$python" ] && [ -e "$environment/complete" ] || make_environment "$1"
    # Bytecode goes to the cache, so that a warm start compiles nothing and a checkout stays clean.
    unset PYTHONDONTWRITEBYTECODE PYTHONHOME PYTHONPATH
}

# why_not LOG: says in one sentence why pip failed, else all that it reports.
why_not() {
    unreached=$({
        grep -E 'Retrying|ConnectionError|ProxyError|SSLError|timed out' "$1" || grep 'from versions: none' "$1"
    } | tail -n 1)
    machine=$(uname -m)
    if [ "$machine" != x86_64 ] && [ "$machine" != aarch64 ]; then
        printf 'they are locked for x86_64 and aarch64, and this machine is %s\n' "$machine"
    elif grep -q 'No space left' "$1"; then
        printf 'the disk of %s is full; the program takes 0.2 GB there\n' "$cache"
    elif [ -n "$unreached" ]; then
        printf '%s %.300s\n' 'no network, or no package index or proxy that can be reached (see: pip config list; HTTPS_PROXY);' \
            "pip reports: ${unreached##*after connection broken by }"
    else
        printf 'pip reports:\n'
        grep -v 'is ignored: it is neither' "$1"
    fi
}

make_environment() {
    interpreter=$(find_python)
    if [ -z "$interpreter" ]; then
        say "needs CPython 3.11, 3.12, 3.13 or 3.14; no python3 or python3.N on PATH is one (or set MATRIX_PYTHON)"
        exit 3
    fi
    mkdir -p "$cache/tool" || exit 3
    # One process makes it, and others wait: a program would miss files while another process replaces them.
    # With "command", a folder that is read-only does not end the shell.
    command exec 9> "$cache/tool/.lock" || exit 3
    if command -v flock > /dev/null; then
        flock 9
        # Those of killed processes: only who holds the lock makes one. What still writes to them does not end this.
        rm -rf "$cache/tool/.making-"* 2> /dev/null || :
    fi
    if [ -x "$python" ] && [ -e "$environment/complete" ]; then
        exec 9>&-
        return
    fi
    new=$(mktemp -d "$cache/tool/.making-XXXXXX") || exit 3
    trap 'rm -rf "$new"' EXIT
    trap 'exit 129' HUP
    trap 'exit 130' INT
    trap 'exit 143' TERM
    mkdir "$new/tmp" || exit 3
    reason="first use"
    [ ! -e "$environment/complete" ] || reason="$(readlink -m -- "$python") is gone"
    say "$reason: making the program's own environment ($("$interpreter" -V), about 15 s)"
    # Programs do not get the lock: one that outlives this shell would make the next start wait.
    # Interrupted, it prints a traceback.
    if ! log=$(TMPDIR=$new/tmp "$interpreter" -m venv "$new" 2>&1 9>&-); then
        printf '%s\n' "$log" >&2
        say "$interpreter cannot make virtual environments; on Debian and Ubuntu: apt install python3-venv"
        exit 3
    fi
    if ! TMPDIR=$new/tmp "$new/bin/python" -m pip install --quiet --disable-pip-version-check --require-hashes --no-deps \
        --only-binary=:all: -r "$root/tools/$1" >"$new/pip.log" 2>&1 9>&-; then
        say "its packages (tools/$1) cannot be installed: $(why_not "$new/pip.log")"
        exit 3
    fi
    rm -rf "$new/tmp"
    : > "$new/complete"
    rm -rf "$environment"
    mv -T "$new" "$environment" 2>/dev/null || rm -rf "$new"
    trap - EXIT HUP INT TERM
    exec 9>&-
}
