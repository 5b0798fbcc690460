"""Build a commit of a git repository into a prefix.

Commits of a bisection are built in folders that stay, so that a build compiles only the files that differ from the last commit.
A file beside them records a commit that cannot be built, unless the machine failed.

If a needed package has a compiler, that compiler is used with the C library of its prefix; otherwise the host's compiler. Programs
that need prefixes run by the loader of a prefix, because its libraries may be newer than the host's.
"""

from __future__ import annotations

import os
import re
import shutil
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from itertools import cycle
from pathlib import Path

from mlir_matrix.base.errors import InfrastructureError
from mlir_matrix.base.events import PackageProgress
from mlir_matrix.base.files import AT_ONCE, Cancelled, check, locked, make_way, unwritable, write_text
from mlir_matrix.environments.fetch.workshop import Workshop
from mlir_matrix.environments.installed.integrity import UnpackedFile, damaged_files, write_manifest
from mlir_matrix.environments.installed.prefix import OURS, Prefix, find_programs, read_prefix, save_prefix
from mlir_matrix.environments.interpreter import Interpreter
from mlir_matrix.environments.machine import HOST
from mlir_matrix.environments.source import command_lines as commands
from mlir_matrix.environments.source.command_lines import Places
from mlir_matrix.environments.source.confined import confined, is_of_system
from mlir_matrix.environments.source.package import SourceBuild
from mlir_matrix.environments.source.process import Runner, first_error
from mlir_matrix.environments.source.repository import open_repository

_ADVICE = {
    "git": "a git on PATH",
    "cmake": "a cmake on PATH (Debian's package cmake; or pip install cmake)",
    "ninja": "a ninja on PATH (Debian's package ninja-build; or pip install ninja)",
}

_WAIT_S = 0.1
#: Failures of the machine, not of the commit.
_PASSING = re.compile(
    "No space left|Disk quota exceeded|the disk is full|Cannot allocate memory|[Oo]ut of memory|Killed|Error 137|code=137|"
    "builds cannot be confined"
)
_LIMIT = re.compile(r"not done after (\S+) s")


def check_tools(build: SourceBuild) -> None:
    """Raise InfrastructureError if the operator does not allow the build, or this host lacks a program that it runs."""
    if build.network and not (build.permissions.network or build.is_own):
        raise InfrastructureError(
            f"{build.network}: the build of {build.label} needs the network; if you trust it, allow that with "
            "--allow-network-builds, for example: matrix toolchain fetch "
            f"{build.component}@{build.release} --allow-network-builds"
        )
    needed = ("git",) if build.command else tuple(_ADVICE)
    missing = [_ADVICE[name] for name in needed if shutil.which(name) is None]
    if not build.compiler.cxx and not build.command:
        missing.append(
            "a C++ compiler on PATH (c++, g++ or clang++), or in 'needs' (a component of Debian packages with g++-12, "
            "libc6-dev and the folders of their programs)"
        )
    if missing:
        raise InfrastructureError(f"{build.label} cannot be built on this machine; it needs {'; '.join(missing)}")


def build_source(build: SourceBuild, _interpreter: Interpreter, workshop: Workshop) -> None:
    """Build and install a package, whose needs are installed. Raise InfrastructureError, Cancelled."""
    places = Places(workshop.packages, workshop.cache, build)
    _check_compiler(places)
    try:
        with locked(workshop.packages / ".locks" / build.folder, workshop.cancelled):
            # Another process may have built it while this one waited.
            if not (workshop.packages / build.folder).is_dir():
                make_way(workshop.packages / build.folder)
                with _slot(places, workshop.cancelled) as free, _swept(free):
                    if not _is_copied(free, workshop):
                        _build(free, workshop)
                    os.rename(free.made, free.prefix(build.folder))
    except OSError as error:
        raise unwritable(f"{build.label} cannot be built", error) from None


def _check_compiler(places: Places) -> None:
    """Raise InfrastructureError if the compiler of a needed prefix is incomplete."""
    build = places.build
    if not build.compiler.folder:
        return
    by = f"{build.label} cannot be built by {build.compiler.cxx} of {build.compiler.folder}"
    prefix = places.prefix(build.compiler.folder)
    absent = [name for name in ("cc1plus", "as", "ld") if name not in read_prefix(prefix).programs]
    if absent:
        raise InfrastructureError(
            f"{by}: no folder in its 'programs' has {', '.join(absent)} (cc1plus is in "
            f"usr/lib/gcc/{HOST.triplet}/12 or usr/libexec/gcc/{HOST.triplet}/14)"
        )
    if not (prefix / HOST.linked_loader).is_file():
        raise InfrastructureError(
            f"{by}: it has no {HOST.linked_loader}, with which its C library is linked; since Debian 13 the package base-files has "
            "that link (add it to 'alone')"
        )


def _is_copied(places: Places, workshop: Workshop) -> bool:
    """Copy the package from another home (``--from``) that has it undamaged. Return whether one has it."""
    for home in workshop.artifacts.others:
        theirs = home / "packages" / places.build.folder
        if theirs.is_dir() and not damaged_files(theirs, thorough=True):
            try:
                shutil.copytree(theirs, places.made, symlinks=True)
            except shutil.Error as error:
                *_, cause = error.args[0][0]
                raise InfrastructureError(f"{places.build.label} cannot be copied from {theirs}: {cause}") from None
            return True
    return False


def _build(places: Places, workshop: Workshop) -> None:
    label = places.build.label

    def steps(done: int, total: int) -> None:
        workshop.listener(PackageProgress(package=label, received=done, total=total, phase="building"))

    note = failure_note(places)
    if places.build.is_bisected and (failed := _failed_before(note, places.build.timeout)):
        raise InfrastructureError(f"{failed} (tried before; to build it again, remove {note})")
    steps(0, 0)
    places.log.unlink(missing_ok=True)
    runner = Runner(places.log, workshop.cancelled, steps)
    if places.build.is_bisected:
        # On a machine where no bisection has run, a pinned commit is not there yet.
        if runner.output(commands.has_commit_command(places))[0] != 0:
            open_repository(places.build.repository, workshop.cache, [places.build.commit])
    else:
        with locked(places.mirror.with_suffix(".lock"), workshop.cancelled):
            _fetch_commit(places, runner)
    for command in commands.checkout_commands(places):
        runner.run(command, f"{label} cannot be checked out")
    inside = confined(places)
    try:
        for command in commands.build_commands(places):
            words = command if places.build.is_own else (*inside, *command)
            runner.run(words, f"{label} cannot be built", places.build.timeout)
        _make_prefix(places, runner, inside)
    except InfrastructureError as error:
        if places.build.is_bisected and not _PASSING.search(f"{error}\n{places.log.read_text(errors='replace')}"):
            write_text(note, str(error))
        raise


def failure_note(places: Places) -> Path:
    """Return the file that says why a commit of a bisection cannot be built, if it was tried and the machine did not fail."""
    return places.work.parent / f"{places.build.folder}.failed"


def _failed_before(note: Path, limit_s: float | None) -> str:
    """Return why an earlier build of the commit failed; empty if none did, or if more time may help."""
    failed = note.read_text() if note.is_file() else ""
    late = _LIMIT.search(failed)
    return "" if late and (limit_s is None or float(late[1]) < limit_s) else failed


def _fetch_commit(places: Places, runner: Runner) -> None:
    """Fetch the commit into the mirror, whose lock is held, so that any lock file of git is stale."""
    build = places.build
    for left in places.mirror.rglob("*.lock"):
        left.unlink(missing_ok=True)
    initialise, fetch = commands.mirror_commands(places)
    runner.run(initialise, f"{build.label} cannot be fetched")
    if runner.output(commands.has_commit_command(places))[0] == 0:
        return
    if runner.output(fetch)[0] != 0:
        runner.run(commands.whole_mirror_command(places), f"{build.repository} cannot be fetched")
        if runner.output(commands.has_commit_command(places))[0] != 0:
            raise InfrastructureError(f"{build.repository} has no commit {build.commit}")


@contextmanager
def _slot(places: Places, cancelled: threading.Event) -> Iterator[Places]:
    """Lock a build folder: for commits of a bisection the first one that no other build uses. Raise Cancelled."""
    if not places.build.is_bisected:
        yield places
        return
    free = [replace(places, slot=number) for number in range(commands.slots())]
    with ExitStack() as stack:
        for each in cycle(free):
            try:
                stack.enter_context(locked(each.work.with_suffix(".lock"), AT_ONCE))
            except Cancelled:
                cancelled.wait(_WAIT_S / len(free))
                check(cancelled)
            else:
                break
        yield each


@contextmanager
def _swept(places: Places) -> Iterator[None]:
    """Remove the working folders before and after a build, except one that stays. The caller holds the lock of the build."""
    stays = places.build.is_bisected
    if stays:
        for folder in (places.work, places.work / "patched"):
            (folder / "index.lock").unlink(missing_ok=True)

    def sweep() -> None:
        for folder in (places.temporary if stays else places.work, places.made):
            shutil.rmtree(folder, ignore_errors=True)

    sweep()
    try:
        yield
    finally:
        sweep()


def _make_prefix(places: Places, runner: Runner, inside: commands.Command) -> None:
    """Test the built programs, then write the prefix's files. Raise InfrastructureError.

    ``inside``: the words that isolate a command, because a loader that lists libraries of a program may run code of the program.
    """
    build, made = places.build, places.made
    if os.path.lexists(made / OURS):
        # A link with this name could redirect the files that are written below it out of the prefix.
        raise InfrastructureError(f"{build.label} was built, but its files include {OURS}, which holds our own files")
    folders = build.programs or ("bin",)
    programs = dict(find_programs(made, folders))
    if not programs:
        raise InfrastructureError(f"{build.label} was built, but has no programs in {', '.join(folders)}")
    if build.base:
        # Prefixes are in one folder, so relative paths between them stay valid when that folder is moved.
        loader = os.path.normpath(f"../{build.base}/{read_prefix(places.prefix(build.base)).loader}")
        prefix = Prefix(loader=loader, libraries=tuple(_libraries(places)), programs=programs)
        _try_programs(places, prefix, runner, inside)
    else:
        by_host = {name: replace(program, loaded=False) for name, program in programs.items()}
        _, needed = runner.output((*inside, "--needed", *(str(made / each.path) for each in programs.values())))
        # The list may be false, because the program may have printed it itself.
        known = (path for path in needed.splitlines() if is_of_system(path) and os.path.exists(path))
        prefix = Prefix(loader="", libraries=(), programs=by_host, needed=tuple(dict.fromkeys(known)))
    save_prefix(made, prefix)
    paths = [Path(folder, name) for folder, folders, names in os.walk(made) for name in (*folders, *names)]
    links = {path.relative_to(made).as_posix(): os.readlink(path) for path in paths if path.is_symlink()}
    files = (path for path in paths if path.is_file() and not path.is_symlink() and made / OURS not in path.parents)
    write_manifest(made, (UnpackedFile.of(made, path) for path in files), links)


def _libraries(places: Places) -> Iterator[str]:
    yield "lib"
    for need in places.build.needs:
        name = need.folder_for("")
        yield from (os.path.normpath(f"../{name}/{folder}") for folder in read_prefix(places.prefix(name)).libraries)


def _try_programs(places: Places, prefix: Prefix, runner: Runner, inside: commands.Command) -> None:
    """Check that the loader can resolve the libraries and symbols of each program."""
    for name, program in prefix.programs.items():
        if program.loaded:
            *words, path = prefix.argv(str(places.made), name)
            code, output = runner.output((*inside, *words, "--list", path))
            if code != 0:
                raise InfrastructureError(
                    f"{places.build.label}: {name} was built but cannot run with the libraries of {places.build.base}: "
                    f"{first_error(output)}; add a compiler to 'needs', which builds for them"
                )
