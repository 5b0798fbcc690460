"""Make the commands that build a commit: git, CMake, Ninja, or the user's own. A dry run prints the same commands.

``confined.confined`` returns the words that precede commands with code or options from a catalog.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from mlir_matrix.base.digest import digest_value
from mlir_matrix.environments.installed.prefix import read_prefix, wrapper
from mlir_matrix.environments.machine import HOST
from mlir_matrix.environments.source.package import SourceBuild
from mlir_matrix.environments.source.repository import GIT, history_folder, objects_folder

Command = Sequence[str]

_VARIABLE = re.compile(r"\$\{(\w+)\}")
#: A placeholder for the loader of a prefix that is not installed, in printed commands.
_LOADER = "LOADER"
#: Cores for each parallel build of a bisection. A large build uses all of them, and each folder begins with a full build.
_CORES = 16
#: A placeholder for a commit in printed commands.
ANY_COMMIT = "$commit"
#: Builds the targets that exist, because some were renamed over the years, and copies them.
_TARGETS = """\
folder=$1 made=$2 jobs=$3; shift 3
for each do
  shift
  if ninja -C "$folder" -t query "$each" >/dev/null 2>&1; then set -- "$@" "$each"; fi
done
if [ $# = 0 ]; then echo "error: no target of the build is there"; exit 1; fi
ninja -C "$folder" -j "$jobs" "$@" || exit
mkdir -p "$made/bin" "$made/lib" "$folder/lib"
for each do cp -a "$folder/bin/$each" "$made/bin/" || exit; done
find "$folder/lib" -name "*.so*" -exec cp -a -t "$made/lib" {} +
"""
#: Removes CMake's cache, ``$0``, if CMake's files differ from those of the previous checkout: the cache keeps values of options,
#: but this commit may have other defaults. The words are a git command that compares.
_DROP_CACHE = '"$@" -- "*CMakeLists.txt" "*.cmake" "*.in" || rm -f "$0"'
#: Checks out what the index ``$1`` has, by the index ``$2`` of the previous checkout; then come the words that start git.
_CHECK_OUT_PATCHED = f"""\
patched=$1 index=$2; shift 2
tree=$(env "$patched" "$@" write-tree) || exit
set -- env "$index" "$@"
[ -z "$0" ] || sh -c '{_DROP_CACHE}' "$0" "$@" diff-index --cached --quiet "$tree"
exec "$@" read-tree --reset -u "$tree"
"""


@dataclass(frozen=True)
class Places:
    """Folders of a build. The next holder of the build's lock removes those that begin with ``.new-``."""

    packages: Path
    cache: Path
    build: SourceBuild
    #: The number of the build folder of a bisection.
    slot: int = 0

    @property
    def mirror(self) -> Path:
        """Return the folder with the repository's git objects, which all of its commits share."""
        if self.build.is_bisected:
            return history_folder(self.build.repository, self.cache)
        return self.cache / "git" / f"{digest_value(self.build.repository)[:16]}.git"

    @property
    def work(self) -> Path:
        """Return the folder of sources and objects. It is removed after the build, except in a bisection."""
        if self.build.is_bisected:
            return self.cache / "builds" / self.build.build_folder / str(self.slot)
        return self.packages / f".new-{self.build.folder}-build"

    @property
    def source(self) -> Path:
        """Return the folder of the checkout."""
        return self.work / "source"

    @property
    def objects(self) -> Path:
        """Return the folder in which CMake and Ninja build."""
        return self.work / "build"

    @property
    def temporary(self) -> Path:
        """Return the home of a build, which is also its folder for temporary files. It is removed after the build."""
        return self.work / "temporary"

    @property
    def made(self) -> Path:
        """Return the folder that becomes the prefix."""
        return self.packages / f".new-{self.build.folder}-made"

    @property
    def log(self) -> Path:
        return self.cache / "logs" / f"{self.build.folder}.log"

    def prefix(self, name: str) -> Path:
        return self.packages / name


def mirror_commands(places: Places) -> Iterator[Command]:
    """Fetch the one commit."""
    commit = places.build.commit
    yield (*GIT, "init", "--quiet", "--bare", str(places.mirror))
    yield _fetch(places, "--depth=1", f"+{commit}:refs/matrix/{commit}")


def whole_mirror_command(places: Places) -> Command:
    """Fetch everything, from a server that refuses single commits."""
    return _fetch(places, "+refs/heads/*:refs/origin/heads/*", "+refs/tags/*:refs/origin/tags/*")


def _fetch(places: Places, *words: str) -> Command:
    options, refs = [word for word in words if word[0] == "-"], [word for word in words if word[0] != "-"]
    folder = f"--git-dir={places.mirror}"
    quiet = ("--quiet", "--no-tags", "--no-recurse-submodules")
    return (*GIT, folder, "fetch", *quiet, *options, "--", places.build.repository, *refs)


def has_commit_command(places: Places) -> Command:
    """Succeed if the mirror has the commit."""
    return (*GIT, f"--git-dir={places.mirror}", "cat-file", "-e", f"{places.build.commit}^{{commit}}")


def checkout_commands(places: Places) -> Iterator[Command]:
    """Check out the commit. Files that do not differ from the previous checkout keep their times."""
    index = f"GIT_INDEX_FILE={places.work / 'index'}"
    yield ("mkdir", "-p", *map(str, (places.source, places.objects, places.temporary, places.made)))
    git = ("env", index, *GIT[1:], f"--git-dir={places.mirror}", f"--work-tree={places.source}")
    # A build by a command has no such file.
    cache = str(places.objects / "CMakeCache.txt") if places.build.is_bisected and not places.build.command else ""
    if not places.build.patches:
        if cache:
            yield ("sh", "-c", _DROP_CACHE, cache, *git, "diff-index", "--cached", "--quiet", places.build.commit)
        yield (*git, "read-tree", "--reset", "-u", places.build.commit)
        return
    # The patched tree is made before the checkout: only files that differ from the previous one are written.
    objects = places.work / "patched"
    patched = f"GIT_INDEX_FILE={objects / 'index'}"
    words = (*patching_git(places.mirror, objects), f"--work-tree={places.source}")
    yield ("mkdir", "-p", str(objects))
    yield ("env", patched, *words, "read-tree", places.build.commit)
    for path, _ in places.build.patches:
        yield ("env", patched, *words, "apply", "--cached", str(path))
    yield ("sh", "-c", _CHECK_OUT_PATCHED, cache, patched, index, *words)


def patching_git(repository: Path, objects: Path) -> Command:
    """Return the words that start git with all objects of a repository, and a folder for new objects."""
    return (
        "env",
        f"GIT_OBJECT_DIRECTORY={objects}",
        f"GIT_ALTERNATE_OBJECT_DIRECTORIES={objects_folder(repository)}",
        *GIT[1:],
        *("-c", "apply.whitespace=nowarn", "-c", "apply.ignoreWhitespace=no"),
        f"--git-dir={repository}",
    )


def build_commands(places: Places) -> Iterator[Command]:
    """Configure, build and install."""
    build = places.build
    clean = _environment(places)
    folder = places.objects
    source = os.path.normpath(places.source / build.subfolder)
    if build.command:
        yield (*clean, *_variables(places), "sh", "-c", 'cd "$0" && eval "$1"', source, build.command)
        return
    yield (*clean, "cmake", "-G", "Ninja", "-S", source, "-B", str(folder), *_definitions(places))
    jobs = str(_jobs(build))
    status = "NINJA_STATUS=[%f/%t] "
    if build.targets:
        yield (*clean, status, "sh", "-c", _TARGETS, "ninja", str(folder), str(places.made), jobs, *build.targets)
    else:
        yield (*clean, status, "ninja", "-C", str(folder), "-j", jobs)
        yield (*clean, "cmake", "--install", str(folder), "--prefix", str(places.made))


def slots() -> int:
    """Return how many commits of a bisection are built at a time."""
    return max(1, len(os.sched_getaffinity(0)) // _CORES)


def _jobs(build: SourceBuild) -> int:
    return len(os.sched_getaffinity(0)) // (slots() if build.is_bisected else 1)


def _variables(places: Places) -> Iterator[str]:
    """Yield the environment variables of the user's own command."""
    build, flags = places.build, _flags(places)
    yield f"PREFIX={places.made}"
    yield f"JOBS={_jobs(build)}"
    for name, compiler in (("CC", build.compiler.c), ("CXX", build.compiler.cxx)):
        folder = build.compiler.folder
        yield f"{name}={wrapper(places.prefix(folder), compiler) if folder else compiler}"
    for name, ours in (("CFLAGS", "C"), ("CXXFLAGS", "CXX"), ("LDFLAGS", "EXE_LINKER")):
        if f"CMAKE_{ours}_FLAGS" in flags:
            yield f"{name}={flags[f'CMAKE_{ours}_FLAGS']}"
    yield from (f"{name}={places.prefix(need) / inside}" for name, need, inside in build.variables)


def _environment(places: Places) -> Command:
    """Return the words that start a command with the host's PATH, a separate home and no other variables, such as CFLAGS."""
    path, own = os.environ.get("PATH", os.defpath), places.build.is_own
    home = os.environ.get("HOME", "/") if own else places.temporary
    words = ["env", "-i", f"PATH={path}", f"HOME={home}", f"TMPDIR={places.temporary}", "LC_ALL=C"]
    compiler = places.build.compiler
    if compiler.folder:
        words.append(f"GCC_EXEC_PREFIX={places.prefix(compiler.folder)}/usr/lib/gcc/")
    if shutil.which("ccache"):
        words += [f"CCACHE_BASEDIR={places.work}", "CCACHE_NOHASHDIR=1"]
        # By our digest: the compiler may be a script, whose bytes do not identify the compiler that it runs.
        words.append(f"CCACHE_COMPILERCHECK=string:{digest_value(compiler.identity)}")
        # A shared cache only for the user's own command, because a build could replace objects of others.
        kept = os.environ.get("CCACHE_DIR", "") if own else str(places.objects / "ccache")
        words += [f"CCACHE_DIR={kept}"] if kept else []
    return words


def _definitions(places: Places) -> Iterator[str]:
    build = places.build
    found: dict[str, str] = {
        "CMAKE_BUILD_TYPE": "Release",
        # Equal for all commits of a bisection, because otherwise CMake would configure each from the beginning.
        "CMAKE_INSTALL_PREFIX": str(places.work / "prefix" if build.is_bisected else places.prefix(build.folder)),
        "CMAKE_RUNTIME_OUTPUT_DIRECTORY": str(places.objects / "bin"),
        "CMAKE_LIBRARY_OUTPUT_DIRECTORY": str(places.objects / "lib"),
        # The folder of the build has the layout of the prefix, so the RPATH of the installed files is valid there.
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
    """Return flags that make a prefix's compiler use only that prefix, and its programs run with the linked libraries."""
    build = places.build
    if not build.base:
        return {}
    root = places.prefix(build.base)
    linking = [f"-Wl,-rpath-link,{folder}" for folder in _libraries(places)]
    compiling: list[str] = []
    if build.compiler.folder:
        tools = f"usr/libexec/gcc/{HOST.triplet}/{build.compiler.cxx.rpartition('-')[2]}"
        compiling = [f"--sysroot={root}", f"-B{root / '.matrix' / 'bin'}", f"-B{root / tools}"]
        # The build may run programs that it has just built.
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
        yield " ".join('PATH="$PATH"' if word == path else _quoted(word) for word in command)


def _quoted(word: str) -> str:
    quoted = shlex.quote(word)
    return quoted.replace(ANY_COMMIT, f"'\"{ANY_COMMIT}\"'").replace("''", "") if ANY_COMMIT in word else quoted


def dry_run(places: Places) -> Iterator[str]:
    """Yield all commands of a build as a script, without running them."""
    build = places.build
    yield f"# {build.label}: {build.repository} at {build.commit}"
    if build.needs:
        yield f"# needs {', '.join(need.label for need in build.needs)}"
    compiler = places.prefix(build.compiler.folder)
    if build.compiler.folder and not compiler.is_dir():
        yield f"# {_LOADER}: see {compiler}/.matrix/prefix.json once it is installed"
    if not build.is_bisected:
        yield from shown(mirror_commands(places))
    yield from shown(checkout_commands(places))
    yield from shown(build_commands(places))
    yield f"# then write .matrix/prefix.json there, and move the folder to {places.prefix(build.folder)}"
