"""The commands that build a commit: git, CMake, Ninja. A dry run prints the same commands."""

from __future__ import annotations

import os
import re
import shlex
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from mlir_matrix.digest import digest_value
from mlir_matrix.environments.install.prefix import read_prefix, wrapper
from mlir_matrix.environments.machine import HOST
from mlir_matrix.environments.source.package import SourceBuild

Command = Sequence[str]

_VARIABLE = re.compile(r"\$\{(\w+)\}")
#: Stands for the loader of a prefix that is not installed, in commands that are only printed.
_LOADER = "LOADER"
#: No prompts, no remote helpers (``ext::``), no hooks.
_GIT = (
    "env", "GIT_TERMINAL_PROMPT=0", "GIT_ALLOW_PROTOCOL=file:git:http:https:ssh",
    "git", "-c", "protocol.ext.allow=never", "-c", "core.hooksPath=/dev/null", "-c", "gc.auto=0",
)  # fmt: skip


@dataclass(frozen=True)
class Places:
    """Folders of a build. Those that begin with ``.new-`` are removed by the next holder of the build's lock."""

    packages: Path
    cache: Path
    build: SourceBuild

    @property
    def mirror(self) -> Path:
        """Git objects of the repository, shared by all of its commits."""
        return self.cache / "git" / f"{digest_value(self.build.repository)[:16]}.git"

    @property
    def work(self) -> Path:
        """Sources and objects, removed after the build."""
        return self.packages / f".new-{self.build.folder}-build"

    @property
    def made(self) -> Path:
        """Folder that becomes the prefix."""
        return self.packages / f".new-{self.build.folder}-made"

    @property
    def log(self) -> Path:
        return self.cache / "logs" / f"{self.build.folder}.log"

    def prefix(self, name: str) -> Path:
        return self.packages / name


def mirror_commands(places: Places) -> Iterator[Command]:
    """Fetch the one commit."""
    commit = places.build.commit
    yield (*_GIT, "init", "--quiet", "--bare", str(places.mirror))
    yield _fetch(places, "--depth=1", f"+{commit}:refs/matrix/{commit}")


def whole_mirror_command(places: Places) -> Command:
    """Fetch everything, from a server that refuses single commits."""
    return _fetch(places, "+refs/heads/*:refs/origin/heads/*", "+refs/tags/*:refs/origin/tags/*")


def _fetch(places: Places, *words: str) -> Command:
    options, refs = [word for word in words if word[0] == "-"], [word for word in words if word[0] != "-"]
    folder = f"--git-dir={places.mirror}"
    quiet = ("--quiet", "--no-tags", "--no-recurse-submodules")
    return (*_GIT, folder, "fetch", *quiet, *options, "--", places.build.repository, *refs)


def has_commit_command(places: Places) -> Command:
    """Succeed if the mirror has the commit."""
    return (*_GIT, f"--git-dir={places.mirror}", "cat-file", "-e", f"{places.build.commit}^{{commit}}")


def checkout_commands(places: Places) -> Iterator[Command]:
    """Check out the commit."""
    source = places.work / "source"
    index = f"GIT_INDEX_FILE={places.work / 'index'}"
    yield ("mkdir", "-p", str(source))
    words = (f"--git-dir={places.mirror}", f"--work-tree={source}", "checkout", "--quiet", "--force")
    yield ("env", index, *_GIT[1:], *words, places.build.commit, "--", ".")


def build_commands(places: Places) -> Iterator[Command]:
    """Configure, build and install."""
    build = places.build
    clean = _environment(places)
    folder = places.work / "build"
    source = os.path.normpath(places.work / "source" / build.subfolder)
    yield (*clean, "cmake", "-G", "Ninja", "-S", source, "-B", str(folder), *_definitions(places))
    yield (*clean, "NINJA_STATUS=[%f/%t] ", "ninja", "-C", str(folder), *build.targets)
    if build.targets:
        programs, libraries = places.made / "bin", places.made / "lib"
        yield ("mkdir", "-p", str(programs), str(libraries), str(folder / "lib"))
        yield ("cp", "-a", *(str(folder / "bin" / target) for target in build.targets), f"{programs}/")
        yield ("find", str(folder / "lib"), "-name", "*.so*", "-exec", "cp", "-a", "-t", str(libraries), "{}", "+")
    else:
        yield (*clean, "cmake", "--install", str(folder), "--prefix", str(places.made))


def _environment(places: Places) -> Command:
    """Return the words that start a command with the host's PATH and HOME and no other variables, such as CFLAGS."""
    path, home = os.environ.get("PATH", os.defpath), os.environ.get("HOME", "/")
    words = ["env", "-i", f"PATH={path}", f"HOME={home}", "LC_ALL=C"]
    compiler = places.build.compiler
    if compiler.folder:
        words.append(f"GCC_EXEC_PREFIX={places.prefix(compiler.folder)}/usr/lib/gcc/")
    if shutil.which("ccache"):
        words += [f"CCACHE_BASEDIR={places.work}", "CCACHE_NOHASHDIR=1"]
        # The compiler may be a script, whose bytes do not identify the compiler that it runs.
        words.append(f"CCACHE_COMPILERCHECK=string:{digest_value(compiler.identity)}")
        if "CCACHE_DIR" in os.environ:
            words.append(f"CCACHE_DIR={os.environ['CCACHE_DIR']}")
    return words


def _definitions(places: Places) -> Iterator[str]:
    build = places.build
    found: dict[str, str] = {
        "CMAKE_BUILD_TYPE": "Release",
        "CMAKE_INSTALL_PREFIX": str(places.prefix(build.folder)),
        "CMAKE_RUNTIME_OUTPUT_DIRECTORY": str(places.work / "build" / "bin"),
        "CMAKE_LIBRARY_OUTPUT_DIRECTORY": str(places.work / "build" / "lib"),
        # The folder of the build has the layout of the prefix.
        "CMAKE_BUILD_WITH_INSTALL_RPATH": "ON",
        "CMAKE_INSTALL_RPATH": ";".join(["$ORIGIN/../lib", *_libraries(places)]),
    }
    for language, program in (("C", build.compiler.c), ("CXX", build.compiler.cxx)):
        if shutil.which("ccache"):
            found[f"CMAKE_{language}_COMPILER_LAUNCHER"] = "ccache"
        folder = build.compiler.folder
        found[f"CMAKE_{language}_COMPILER"] = str(wrapper(places.prefix(folder), program)) if folder else program
    variables = {name: str(places.prefix(need) / inside) for name, need, inside in build.variables}
    found |= variables
    given = {name: _VARIABLE.sub(lambda name: variables.get(name[1], name[0]), value) for name, value in build.options}
    found |= given
    if build.needs:
        roots = ";".join(str(places.prefix(need.folder_for(""))) for need in build.needs)
        found.setdefault("CMAKE_FIND_ROOT_PATH", roots)
        for what in ("LIBRARY", "INCLUDE"):
            found.setdefault(f"CMAKE_FIND_ROOT_PATH_MODE_{what}", "ONLY")
    for name, flags in _flags(places).items():
        found[name] = f"{flags} {given.get(name, '')}".strip()
    yield from (f"-D{name}={value}" for name, value in found.items())


def _flags(places: Places) -> Mapping[str, str]:
    """Return flags that make the compiler of a prefix use that prefix only, and programs run with what they are linked with."""
    build = places.build
    if not build.base:
        return {}
    root = places.prefix(build.base)
    linking = [f"-Wl,-rpath-link,{folder}" for folder in _libraries(places)]
    compiling: list[str] = []
    if build.compiler.folder:
        tools = f"usr/libexec/gcc/{HOST.triplet}/{build.compiler.cxx.rpartition('-')[2]}"
        compiling = [f"--sysroot={root}", f"-B{root / '.matrix' / 'bin'}", f"-B{root / tools}"]
        # The build may run programs that it has built.
        linking.append(f"-Wl,--dynamic-linker={root / _loader(root)}")
    flags = dict.fromkeys(("CMAKE_C_FLAGS", "CMAKE_CXX_FLAGS"), shlex.join(compiling)) if compiling else {}
    kinds = ("EXE", "SHARED", "MODULE")
    return flags | {f"CMAKE_{kind}_LINKER_FLAGS": shlex.join(linking) for kind in kinds}


def _loader(root: Path) -> str:
    """Return the loader of a prefix, relative to it: its folder differs between distributions."""
    return read_prefix(root).loader if root.is_dir() else _LOADER


def _libraries(places: Places) -> list[str]:
    """Return the library folders of needed packages, installed or not."""
    return [str(places.prefix(need) / folder) for need, folder in places.build.libraries]


def shown(commands: Iterator[Command]) -> Iterator[str]:
    """Yield commands as lines for a shell."""
    path = f"PATH={os.environ.get('PATH', os.defpath)}"
    for command in commands:
        yield " ".join('PATH="$PATH"' if word == path else shlex.quote(word) for word in command)


def dry_run(places: Places) -> Iterator[str]:
    """Yield everything that a build would run, as a script."""
    build = places.build
    yield f"# {build.label}: {build.repository} at {build.commit}"
    if build.needs:
        yield f"# needs {', '.join(need.label for need in build.needs)}"
    compiler = places.prefix(build.compiler.folder)
    if build.compiler.folder and not compiler.is_dir():
        yield f"# {_LOADER}: see {compiler}/.matrix/prefix.json once it is installed"
    yield from shown(mirror_commands(places))
    yield from shown(checkout_commands(places))
    yield from shown(build_commands(places))
    yield f"# then write .matrix/prefix.json there, and move the folder to {places.prefix(build.folder)}"
