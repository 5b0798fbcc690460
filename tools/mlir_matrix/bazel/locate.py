"""Choose a Bazel: the one in ``MATRIX_BAZEL``, else the first on PATH that works, else the component ``bazel``.

A Bazel on PATH must report its version and build a tiny workspace. The build finds modules that cannot be downloaded, an
old Java and a read-only home. The result is kept until the program changes.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from mlir_matrix.base.errors import InfrastructureError, UsageError
from mlir_matrix.base.events import Listener, ignore
from mlir_matrix.base.files import write_text
from mlir_matrix.bazel.client import complaints
from mlir_matrix.environments.installed.integrity import damaged_files, remove
from mlir_matrix.environments.installed.prefix import wrapper
from mlir_matrix.environments.installer import require
from mlir_matrix.environments.selection import prefix_of
from mlir_matrix.environments.session import Session

OVERRIDE = "MATRIX_BAZEL"
COMPONENT = "bazel"
_NAMES = ("bazel", "bazelisk")

#: The first release with everything that a run needs, such as module extensions and ``--target_pattern_file``.
OLDEST = 7
#: Bazelisk may have to download a Bazel first.
_VERSION_S = 60.0
#: A first start unpacks Bazel and downloads the modules of its own tools.
_BUILD_S = 60.0
_VERSION = re.compile(r"^bazel (?P<text>(?P<major>\d+)\.\d\S*)", re.MULTILINE)
_DAY_S = 86_400
_FILE = "bazel-probes.json"
#: A rule that needs a repository of a module extension.
WORKSPACE = {
    "MODULE.bazel": (
        'module(name = "probe")\n\next = use_extension("//:probe.bzl", "ext")\nuse_repo(ext, "probed")\n'
    ),
    "BUILD.bazel": 'load("//:probe.bzl", "probe")\nload("@probed//:said.bzl", "SAID")\n\nprobe(name = "probe", said = SAID)\n',
    "probe.bzl": '''\
"""A repository made by an extension, and a rule whose action runs a command."""

def _repository_impl(repository_ctx):
    repository_ctx.file("BUILD.bazel", "")
    repository_ctx.file("said.bzl", "SAID = 'it builds'\\n")

_repository = repository_rule(implementation = _repository_impl)

def _ext_impl(module_ctx):
    _repository(name = "probed")

ext = module_extension(implementation = _ext_impl)

def _probe_impl(ctx):
    out = ctx.actions.declare_file(ctx.label.name + ".txt")
    ctx.actions.run_shell(outputs = [out], command = "echo '%s' > %s" % (ctx.attr.said, out.path))
    return [DefaultInfo(files = depset([out]))]

probe = rule(implementation = _probe_impl, attrs = {"said": attr.string()})
''',
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Bazel:
    """The chosen Bazel."""

    #: First words of its command line.
    command: tuple[str, ...]
    version: str
    #: ``MATRIX_BAZEL``, ``PATH`` or ``component``.
    where: str
    #: Whether it is installed; a component may be missing.
    here: bool = True
    #: The reasons why others are not used.
    rejected: tuple[str, ...] = ()


def locate(session: Session, *, fetch: bool = True, listener: Listener = ignore) -> Bazel:
    """Return the Bazel to use. The component is installed if needed, unless ``fetch`` is false.

    Raise UsageError if ``MATRIX_BAZEL`` names none, InfrastructureError if there is none at all.
    """
    if named := os.environ.get(OVERRIDE, ""):
        return _named(session, named)
    rejected = []
    for name in _NAMES:
        path = shutil.which(name)
        if path is None:
            rejected.append(f"no {name} is on PATH")
            continue
        found = probe(Path(path), session.home.state)
        if not found.reason:
            return Bazel(command=(path,), version=found.version, where="PATH", rejected=tuple(rejected))
        rejected.append(f"{path} {found.reason}")
    return _component(session, tuple(rejected), fetch, listener)


def _named(session: Session, named: str) -> Bazel:
    """Return the Bazel in ``MATRIX_BAZEL``, without a test build."""
    path = shutil.which(named)
    if path is None:
        raise UsageError(f"{OVERRIDE}: there is no program {named}; set it to the path of a Bazel, or unset it")
    found = probe(Path(path), session.home.state, build=False)
    if found.reason:
        raise UsageError(f"{OVERRIDE}: {path} {found.reason}")
    return Bazel(command=(os.path.abspath(path),), version=found.version, where=OVERRIDE)


def _component(session: Session, rejected: tuple[str, ...], fetch: bool, listener: Listener) -> Bazel:
    try:
        environment, folder = prefix_of(session, COMPONENT)
        if fetch:
            archives = environment.prefixes[0].archives
            if folder.is_dir() and damaged_files(folder, thorough=False, archives=archives):
                remove(folder, archives)
            require(session, environment, listener)
    except InfrastructureError as error:
        reasons = "; ".join([*rejected, f"the component {COMPONENT}: {error}"])
        raise InfrastructureError(
            f"no usable Bazel: {reasons}; set {OVERRIDE} to the path of Bazel 7 or newer"
        ) from None
    return Bazel(
        command=(str(wrapper(folder, COMPONENT)),), version=environment.prefixes[0].release, where="component",
        here=not environment.missing(session.home.packages), rejected=rejected,
    )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class ProgramProbe:
    """A program's version, and why it cannot be used, if it cannot."""

    version: str = ""
    reason: str = ""
    #: The reason may be temporary, such as a full disk.
    passing: bool = False


def probe(program: Path, state: Path, *, build: bool = True) -> ProgramProbe:
    """Return version and usability of a Bazel, kept below ``state``; ``build``: with a test build."""
    try:
        status = program.stat()
    except OSError as error:
        return ProgramProbe(reason=f"cannot be run: {error.strerror}")
    key = f"{os.path.realpath(program)} {status.st_size} {status.st_mtime_ns} {'build' if build else 'version'}"
    day = int(time.time() // _DAY_S)
    known = _known(state, day)
    if key not in known:
        found = _try(program) if build else ask(program)
        known = {**known, key: found}
        kept = {name: asdict(each) for name, each in known.items()}
        text = json.dumps({"day": day, "known": kept}, indent=1, sort_keys=True)
        with suppress(InfrastructureError):
            # Without a writable folder, the next run probes again.
            write_text(state / _FILE, text + "\n")
    return known[key]


def _known(state: Path, day: int) -> dict[str, ProgramProbe]:
    """Return kept probes; of an earlier day only those that are not temporary."""
    try:
        value = json.loads((state / _FILE).read_bytes())
        known = {key: ProgramProbe(**each) for key, each in value["known"].items()}
        return {key: each for key, each in known.items() if value["day"] == day or not each.passing}
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return {}


def ask(program: Path) -> ProgramProbe:
    """Return the version, and whether it is new enough."""
    with tempfile.TemporaryDirectory(prefix="matrix-bazel-") as folder:
        # The current folder may request another version.
        code, output = _call([str(program), "--version"], Path(folder), _VERSION_S)
    if code is None:
        return ProgramProbe(reason=f"does not report its version within {_VERSION_S:.0f} seconds", passing=True)
    found = _VERSION.search(output)
    if code != 0 or found is None:
        return ProgramProbe(reason=f"reports no version; its output: {_last(output)}", passing=True)
    if int(found["major"]) < OLDEST:
        return ProgramProbe(version=found["text"], reason=f"is {found['text']}: {OLDEST} or newer is needed")
    return ProgramProbe(version=found["text"])


def _try(program: Path) -> ProgramProbe:
    """Return the version, and whether a test build succeeds."""
    found = ask(program)
    if found.reason:
        return found
    with tempfile.TemporaryDirectory(prefix="matrix-bazel-", ignore_cleanup_errors=True) as folder:
        reason = _build(program, Path(folder))
    if reason:
        return ProgramProbe(version=found.version, reason=f"is {found.version}, but {reason}", passing=True)
    return found


def _build(program: Path, folder: Path) -> str:
    """Return why a build fails, or an empty string. End the server."""
    workspace, base = folder / "workspace", folder / "base"
    workspace.mkdir()
    for name, text in WORKSPACE.items():
        (workspace / name).write_text(text, encoding="utf-8")
    start = [str(program), f"--output_user_root={folder / 'root'}", f"--output_base={base}", "--max_idle_secs=10"]
    options = ["--lockfile_mode=off", "--noenable_workspace", "--color=no", "--curses=no", "--noshow_progress"]
    try:
        code, output = _call([*start, "build", *options, "//:probe"], workspace, _BUILD_S)
        if code is None:
            return f"a test build takes more than {_BUILD_S:.0f} seconds"
        if code != 0:
            return f"a test build fails: {_last(output)}"
        return "" if (workspace / "bazel-bin/probe.txt").is_file() else "a test build has no output"
    finally:
        _end_server(base)
        # Bazel unpacks read-only folders.
        for path, _, _ in os.walk(folder):
            with suppress(OSError):
                os.chmod(path, 0o700)
        shutil.rmtree(base, ignore_errors=True)


def _call(command: Sequence[str], folder: Path, seconds: float) -> tuple[int | None, str]:
    """Return exit code and output; after ``seconds``, kill the process group and return no code."""
    with tempfile.TemporaryFile() as output:
        try:
            process = subprocess.Popen(
                command, cwd=folder, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
            )
        except OSError as error:
            return 127, error.strerror or str(error)
        code: int | None
        try:
            code = process.wait(seconds)
        except subprocess.TimeoutExpired:
            code = None
        finally:
            if process.poll() is None:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        output.seek(0)
        return code, output.read().decode("utf-8", "replace")


def _end_server(base: Path) -> None:
    """Kill the server, which has its own session."""
    with suppress(OSError, ValueError):
        pid = int((base / "server/server.pid.txt").read_text(encoding="utf-8"))
        # The process ID may be of another process by now.
        if os.fsencode(base) in Path(f"/proc/{pid}/cmdline").read_bytes():
            os.kill(pid, signal.SIGKILL)


def _last(output: str) -> str:
    """Return the first complaint in an output, else its last line."""
    lines = complaints(output) or output.strip().splitlines()[-1:]
    return f"«{lines[0][:300]}»" if lines else "nothing"
