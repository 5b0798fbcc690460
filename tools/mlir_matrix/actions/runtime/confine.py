"""Run a command of a build as actions run: in namespaces of its own, as nobody, among declared files.

    python -I -S confine.py --write FOLDER… [--bind PATH]… [--processes N] [--network] [--unconfined] [--needed] WORD…

``--needed``: print what programs need of the machine (``root.needed_by``), instead of running a command.
"""

from __future__ import annotations

import argparse
import os
import resource
import signal
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import NoReturn


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--write", action="append")
    parser.add_argument("--bind", action="append", default=[])
    parser.add_argument("--processes", type=int)
    for name in ("--network", "--unconfined", "--needed"):
        parser.add_argument(name, action="store_true")
    parser.add_argument("words", nargs=argparse.REMAINDER)
    return parser.parse_args()


def main(given: argparse.Namespace) -> int:
    # Ninja gets it as well, removes what is half written, and ends: so do we then.
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
    spaces = isolation.enter([*given.bind, *given.write], network=given.network)
    isolation.shield(True)
    if spaces is None or not spaces.has_root:
        reason = isolation.lost(spaces)
        if not given.unconfined:
            print(f"error: builds cannot be confined here: {reason}; allow that with --allow-unconfined-builds")
            return 1
        print(f"not confined: {reason}", flush=True)
        if spaces is None:
            _start(given)
    spaces.processes = given.processes
    trees = {folder: mounts.open_tree(folder) for folder in given.write}
    space = spaces.open(given.write[0], alone=False)
    for folder, tree in trees.items():
        mounts.move_mount(tree, folder)
        mounts.set_attributes(folder, mounts.NOSUID | mounts.NODEV)
    if space.user is not None:
        _give(given.write, space.user)
    pid = os.fork()
    if not pid:
        try:
            space.confine()
            isolation.drop_privileges()
            _start(given)
        except OSError as error:
            print(f"error: {given.words[0]}: {error.strerror}", flush=True)
            os._exit(1)
    space.leave()
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    space.kill()
    space.close()
    if space.user is not None:
        _give(given.write, os.getuid())
    return code if code >= 0 else 128 - code


def _give(folders: Sequence[str], user: int) -> None:
    """Make a user the owner of folders and all in them; the kernel then takes away the bits by which others become that user."""
    for folder in folders:
        for at, names, files in os.walk(folder):
            for name in (".", *names, *files):
                os.chown(os.path.join(at, name), user, user, follow_symlinks=False)


def _start(given: argparse.Namespace) -> NoReturn:
    """Become the command."""
    isolation.shield(False)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.chdir("/")
    if given.needed:
        print(*(path for program in given.words for path in root.needed_by(program)), sep="\n", flush=True)
        os._exit(0)
    # No other variable of the operator's.
    os.execvpe(given.words[0], given.words, {"PATH": os.environ.get("PATH", os.defpath)})  # noqa: S606 - there is no shell


if __name__ == "__main__":
    # Not by sys.path, as in bootstrap.
    _package = sys.modules["mlir_matrix"] = ModuleType("mlir_matrix")
    _package.__path__ = [os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))]
    from mlir_matrix.actions.sandbox import isolation, mounts, root

    sys.exit(main(_arguments()))
