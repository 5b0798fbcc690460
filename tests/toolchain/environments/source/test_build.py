"""Build local git repositories with the host's compiler."""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from mlir_matrix.base.events import PackageProgress
from mlir_matrix.environments.fetch.artifacts import Artifacts
from mlir_matrix.environments.installed import prefix as prefix_module
from mlir_matrix.environments.installed.integrity import damaged_files
from mlir_matrix.environments.installed.prefix import Prefix, PrefixProgram, read_prefix, save_prefix
from mlir_matrix.environments.installer import Installer
from mlir_matrix.environments.interpreter import own
from mlir_matrix.environments.resolve import ResolvedEnvironment
from mlir_matrix.environments.source.command_lines import Places, build_commands, dry_run, mirror_commands
from mlir_matrix.environments.source.confined import confined
from mlir_matrix.environments.source.package import Compiler, SourceBuild, _compiler
from mlir_matrix.environments.source.repository import open_repository
from support.machine import git, needs

needs_compiler = needs("cmake", "ninja", "c++", "git")
CMAKE = """\
cmake_minimum_required(VERSION 3.20)
project(said LANGUAGES CXX)
option(LOUD "" OFF)
add_library(word SHARED word.cpp)
add_executable(say say.cpp)
add_executable(other say.cpp)
target_link_libraries(say PRIVATE word)
target_link_libraries(other PRIVATE word)
if(LOUD)
  target_compile_definitions(say PRIVATE LOUD)
endif()
install(TARGETS say RUNTIME DESTINATION bin)
install(TARGETS word LIBRARY DESTINATION lib)
"""
SAY = """\
#include <cstdio>
const char *word();
int main() {
#ifdef LOUD
  std::printf("%s!\\n", word());
#else
  std::printf("%s\\n", word());
#endif
}
"""
#: Seconds that nobody else sleeps at the same time.
FOREVER = f"3000.{os.getpid()}"


class Repository:
    """A git repository with commits."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        git(folder, "init", "-q")

    def commit(self, **files: str) -> str:
        for name, text in files.items():
            (self.folder / name.replace("_", ".")).write_text(text)
        git(self.folder, "add", "-A")
        git(self.folder, "commit", "-qm", "more")
        return git(self.folder, "rev-parse", "HEAD")

    def says(self, word: str) -> str:
        """A commit whose program says a word."""
        text = f'const char *word() {{ return "{word}"; }}\n'
        return self.commit(CMakeLists_txt=CMAKE, say_cpp=SAY, word_cpp=text)


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository(tmp_path / "repository")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "home"
    (folder / "packages").mkdir(parents=True)
    return folder


def build(repository: Repository | Path | str, commit: str, **changed: object) -> SourceBuild:
    where = str(repository.folder if isinstance(repository, Repository) else repository)
    found = SourceBuild(
        component="said", release="0.1", repository=where, commit=commit, subfolder=".", options=(), targets=(),
        programs=(), variables=(), needs=(), compiler=_compiler(()),
    )  # fmt: skip
    return replace(found, **changed)  # type: ignore[arg-type]


def provide(home: Path, *builds: SourceBuild, others: tuple[Path, ...] = ()) -> list[PackageProgress]:
    events: list[PackageProgress] = []
    installer = Installer(home / "packages", events.append, artifacts=Artifacts(home / "artifacts", others))
    installer.request([ResolvedEnvironment(name="x", interpreter=own(), packages=(), prefixes=builds)])
    installer.finish()
    return events


def failure(home: Path, found: SourceBuild) -> str:
    (error,) = [event.error for event in provide(home, found) if event.error]
    assert left(home) == set()
    return error


def left(home: Path) -> set[str]:
    return {path.name for path in (home / "packages").iterdir() if path.name != ".locks"}


def said(home: Path, found: SourceBuild, program: str = "say") -> str:
    folder = home / "packages" / found.folder
    words = read_prefix(folder).argv(str(folder), program)
    return subprocess.run(words, capture_output=True, text=True, check=True, env={"PATH": ""}).stdout


@needs_compiler
def test_two_commits(home: Path, repository: Repository) -> None:
    """Side by side, of one mirror; each is built once."""
    one, two = (build(repository, repository.says(word)) for word in ("one", "two"))
    events = provide(home, one, two)
    assert not [event.error for event in events if event.error]
    assert left(home) == {one.folder, two.folder}
    assert (said(home, one), said(home, two)) == ("one\n", "two\n")
    assert max(event.total for event in events if event.phase == "building") >= 5
    assert [event for event in events if event.phase == "building" and event.received == event.total > 0]
    assert len(list((home / "git").glob("*.git"))) == 1
    assert provide(home, one, two) == []
    wrapper = home / "packages" / one.folder / ".matrix" / "bin" / "say"
    assert subprocess.run([str(wrapper)], capture_output=True, text=True, check=True).stdout == "one\n"


@needs_compiler
def test_options_and_targets(home: Path, repository: Repository) -> None:
    """Only what is named is built; its library comes along."""
    found = build(repository, repository.says("one"), options=(("LOUD", "ON"),), targets=("say",))
    assert not [event.error for event in provide(home, found) if event.error]
    assert said(home, found) == "one!\n"
    assert set(read_prefix(home / "packages" / found.folder).programs) == {"say"}
    assert not damaged_files(home / "packages" / found.folder, thorough=True)


@needs_compiler
def test_damage_is_found(home: Path, repository: Repository) -> None:
    found = build(repository, repository.says("one"))
    provide(home, found)
    folder = home / "packages" / found.folder
    with open(folder / "bin" / "say", "ab") as file:
        file.write(b"x")
    assert damaged_files(folder, thorough=False) == ["bin/say"]


@needs_compiler
def test_the_dry_run_can_be_run_by_hand(home: Path, repository: Repository) -> None:
    """A shell that is given its lines makes the same programs."""
    found = build(repository, repository.says("it's"), targets=("say",))
    places = Places(home / "packages", home, found)
    script = "\n".join(dry_run(places))
    assert left(home) == set(), "nothing was run"
    subprocess.run(["sh", "-e"], input=script, text=True, check=True, capture_output=True)
    assert (
        subprocess.run([str(places.made / "bin" / "say")], capture_output=True, text=True, check=True).stdout
        == "it's\n"
    )
    assert not [event.error for event in provide(home, found) if event.error], "what it left is swept"
    assert left(home) == {found.folder}


@needs_compiler
def test_an_error_of_the_compiler(home: Path, repository: Repository) -> None:
    found = build(repository, repository.commit(CMakeLists_txt=CMAKE, say_cpp="int main() { return x; }", word_cpp=""))
    error = failure(home, found)
    assert "said 0.1 cannot be built: " in error
    assert "error:" in error
    log = home / "logs" / f"{found.folder}.log"
    assert error.endswith(f"see the log {log}")
    assert "say.cpp" in log.read_text()


@needs_compiler
def test_an_error_of_cmake(home: Path, repository: Repository) -> None:
    text = "cmake_minimum_required(VERSION 3.20)\nproject(x LANGUAGES NONE)\nfind_package(NoSuch REQUIRED)\n"
    assert "CMake Error" in failure(home, build(repository, repository.commit(CMakeLists_txt=text)))


@needs_compiler
def test_nothing_to_run(home: Path, repository: Repository) -> None:
    text = "cmake_minimum_required(VERSION 3.20)\nproject(x LANGUAGES NONE)\n"
    error = failure(home, build(repository, repository.commit(CMakeLists_txt=text)))
    assert error == "said 0.1 was built, but has no programs in bin"


@needs_compiler
@pytest.mark.parametrize(
    ("where", "words"),
    [
        ("nowhere", "cannot be fetched"),
        ("--upload-pack=touch ran", "cannot be fetched"),
        ("ext::sh -c touch% ran", "not allowed"),
        ("http://127.0.0.1:1/x.git", "cannot be fetched"),
    ],
)
def test_addresses_that_are_none(home: Path, where: str, words: str) -> None:
    """None of them runs anything."""
    assert words in failure(home, build(where if "nowhere" not in where else home / where, "a" * 40))
    assert not list(home.rglob("ran"))
    assert not Path("/ran").exists()


@needs_compiler
def test_no_such_commit(home: Path, repository: Repository) -> None:
    repository.says("one")
    assert failure(home, build(repository, "a" * 40)) == f"{repository.folder} has no commit {'a' * 40}"


@needs_compiler
def test_hooks_and_variables_of_others_play_no_part(
    home: Path, repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Variables of git hooks, templates and flags of the user have no effect."""
    found = build(repository, repository.says("one"))
    template = tmp_path / "template"
    (template / "hooks").mkdir(parents=True)
    for name in ("post-checkout", "reference-transaction", "pre-auto-gc"):
        hook = template / "hooks" / name
        hook.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
        hook.chmod(0o755)
    for name, value in {
        "GIT_TEMPLATE_DIR": str(template), "GIT_DIR": str(tmp_path / "no"), "GIT_WORK_TREE": str(tmp_path),
        "GIT_INDEX_FILE": str(tmp_path / "index"), "CXXFLAGS": "-no-such-flag", "LDFLAGS": "-no-such-flag", "CXX": "no",
    }.items():  # fmt: skip
        monkeypatch.setenv(name, value)
    assert not [event.error for event in provide(home, found) if event.error]
    assert said(home, found) == "one\n"
    assert not (tmp_path / "ran").exists()
    assert not (tmp_path / "index").exists()


@pytest.mark.parametrize(
    ("absent", "words"),
    [
        ({"cmake"}, "it needs a cmake on PATH"),
        ({"ninja", "git"}, "it needs a git on PATH; a ninja on PATH"),
        ({"c++", "g++", "clang++"}, "it needs a C++ compiler on PATH (c++, g++ or clang++), or in 'needs'"),
    ],
    ids=["cmake", "ninja and git", "compilers"],
)
def test_what_the_machine_lacks(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, absent: set[str], words: str
) -> None:
    """All of it is named, with what would serve."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in {"git", "cmake", "ninja", "cc", "c++"} - absent:
        (folder / name).write_text("#!/bin/sh\necho 1\n")
        (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(folder))
    found = build(home, "a" * 40)
    assert (found.compiler == Compiler()) == ("c++" in absent)
    assert words in failure(home, found)


@needs_compiler
def test_closing_ends_a_build(home: Path, repository: Repository) -> None:
    """With all that it runs, and nothing is left."""
    text = (
        "cmake_minimum_required(VERSION 3.20)\nproject(x LANGUAGES NONE)\n"
        f"add_custom_target(forever ALL COMMAND sleep {FOREVER})\n"
    )
    found = build(repository, repository.commit(CMakeLists_txt=text))
    events: list[PackageProgress] = []
    installer = Installer(home / "packages", events.append, artifacts=Artifacts(home / "artifacts"))
    installer.request([ResolvedEnvironment(name="x", interpreter=own(), packages=(), prefixes=(found,))])
    until = time.monotonic() + 60
    while not _sleeping():
        assert time.monotonic() < until, events
        time.sleep(0.05)
    closer = threading.Thread(target=installer.close)
    closer.start()
    closer.join(120)
    assert not closer.is_alive()
    assert not _sleeping()
    assert left(home) == set()
    assert not [event for event in events if event.error or event.done]


def _sleeping(seconds: str = FOREVER) -> bool:
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if f"sleep\0{seconds}".encode() in (entry / "cmdline").read_bytes():
                    return True
            except OSError:
                continue
    return False


@needs_compiler
def test_what_a_killed_build_left_is_swept(home: Path, repository: Repository) -> None:
    found = build(repository, repository.says("one"))
    places = Places(home / "packages", home, found)
    for folder in (places.work / "build", places.made / "bin"):
        folder.mkdir(parents=True)
        (folder / "CMakeCache.txt").write_text("nonsense")
        (folder / "say").write_text("#!/bin/sh\necho stale\n")
    (home / "packages" / found.folder).symlink_to("nothing")
    assert not [event.error for event in provide(home, found) if event.error]
    assert left(home) == {found.folder}
    assert said(home, found) == "one\n"


def with_compiler(home: Path, loader: str) -> tuple[SourceBuild, Path]:
    """A build by the compiler of a prefix that runs by ``loader``."""
    prefix = home / "packages" / "dev-1-aaaaaaaaaaaa"
    programs = {name: PrefixProgram(path=f"usr/bin/{name}", loaded=True) for name in ("g++-14", "cc1plus", "as", "ld")}
    save_prefix(prefix, Prefix(loader=loader, libraries=("usr/lib/x86_64-linux-gnu",), programs=programs))
    return build(home, "a" * 40, compiler=Compiler(c="gcc-14", cxx="g++-14", folder=prefix.name)), prefix


@pytest.mark.parametrize("loader", ["lib64/ld-linux-x86-64.so.2", "usr/lib64/ld-linux-x86-64.so.2"])
def test_the_loader_of_what_is_built(home: Path, loader: str) -> None:
    """A dry run prints the loader of the prefix, or a placeholder if it is not installed."""
    found, prefix = with_compiler(home, loader)
    places = Places(home / "packages", home, found)

    def linked() -> set[str]:
        words = [word for line in build_commands(places) for word in line]
        return {word.rpartition("--dynamic-linker=")[2] for word in words if "--dynamic-linker" in word}

    assert linked() == {str(prefix / loader)}
    assert not [line for line in dry_run(places) if "LOADER" in line]
    shutil.rmtree(prefix)
    assert linked() == {str(prefix / "LOADER")}
    assert f"# LOADER: see {prefix}/.matrix/prefix.json once it is installed" in list(dry_run(places))


@needs_compiler
def test_a_prefix_that_cannot_link(home: Path) -> None:
    """Of a Debian whose /lib64 is a link that another package has."""
    found, prefix = with_compiler(home, "usr/lib64/ld-linux-x86-64.so.2")
    (error,) = [event.error for event in provide(home, found) if event.error]
    assert f"g++-14 of {prefix.name}: it has no lib64/ld-linux-x86-64.so.2" in error
    assert "base-files" in error


@needs_compiler
def test_what_a_killed_git_left(home: Path, repository: Repository) -> None:
    """Lock files of git would block for ever; our own lock shows that no git is running."""
    one, two = (build(repository, repository.says(word)) for word in ("one", "two"))
    assert not [event.error for event in provide(home, one) if event.error]
    places = Places(home / "packages", home, two)
    for name in ("shallow.lock", "config.lock", f"refs/matrix/{two.commit}.lock", "packed-refs.lock"):
        (places.mirror / name).touch()
    _, fetch = mirror_commands(places)
    assert subprocess.run(fetch, capture_output=True, check=False).returncode != 0, "they are in the way"
    assert not [event.error for event in provide(home, two) if event.error]
    assert said(home, two) == "two\n"
    assert not list(places.mirror.rglob("*.lock"))


BUILD = """
import sys, threading
from pathlib import Path
from mlir_matrix.environments.installed.integrity import damaged_files
from mlir_matrix.environments.source.process import Runner
threading.Thread(
    target=lambda: Runner(Path(sys.argv[1]), threading.Event(), print).run(sys.argv[2:], "it fails")
).start()
"""


@needs_compiler
@pytest.mark.parametrize("is_confined", [True, False])
def test_a_killed_build_ends(home: Path, is_confined: bool) -> None:
    """With all that it runs: it would write on into what the next one makes there."""
    seconds = f"3001.{os.getpid()}{is_confined:d}"
    (home / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.20)\nproject(x LANGUAGES NONE)\n"
        f"add_custom_target(forever ALL COMMAND sleep {seconds})\n"
    )
    subprocess.run(["cmake", "-G", "Ninja", "-S", home, "-B", home / "b"], check=True, capture_output=True)
    command = ["env", "-i", f"PATH={os.environ['PATH']}", "sh", "-c", f"ninja -C {home}/b; exit"]
    if is_confined:
        places = Places(home / "packages", home, build(home, "a" * 40))
        for folder in (places.temporary, places.objects, places.made, places.source):
            folder.mkdir(parents=True)
        command = [
            *confined(places),
            "--unconfined",
            "--bind",
            str(home / "CMakeLists.txt"),
            "--write",
            str(home / "b"),
            *command,
        ]
    environment = {**os.environ, "PYTHONPATH": str(Path(prefix_module.__file__).parents[3])}
    process = subprocess.Popen([sys.executable, "-c", BUILD, str(home / "log"), *command], env=environment)
    try:
        until = time.monotonic() + 120
        while not _sleeping(seconds):
            assert time.monotonic() < until
            time.sleep(0.05)
    finally:
        process.kill()
        process.wait()
    until = time.monotonic() + 120
    while _sleeping(seconds):
        assert time.monotonic() < until, "it goes on"
        time.sleep(0.05)


@needs_compiler
def test_a_server_that_gives_no_single_commits(home: Path, repository: Repository) -> None:
    """By the old protocol a commit that no branch ends at is not given alone: then everything is fetched."""
    first = repository.says("one")
    repository.says("two")
    git(repository.folder, "config", "uploadpack.allowAnySHA1InWant", "false")
    found = build(repository, first)
    (home / "gitconfig").write_text("[protocol]\n\tversion = 0\n")
    environment = pytest.MonkeyPatch()
    environment.setenv("GIT_CONFIG_GLOBAL", str(home / "gitconfig"))
    try:
        assert not [event.error for event in provide(home, found) if event.error]
    finally:
        environment.undo()
    assert said(home, found) == "one\n"


def bisected(repository: Repository, commit: str, **changed: object) -> SourceBuild:
    """A build as bisections make it up."""
    return build(repository, commit, release=f"0.1.0+git.{commit[:12]}", **changed)


def steps(events: list[PackageProgress]) -> int:
    """How many steps Ninja had to take."""
    return max((event.total for event in events if event.phase == "building"), default=0)


@needs_compiler
def test_neighbours_are_built_in_one_folder(home: Path, repository: Repository) -> None:
    """Only what differs is built, also backwards; what a commit lacks is gone; each is kept and built once."""
    first = bisected(repository, repository.says("one"))
    git(repository.folder, "rm", "-q", "say.cpp")
    other = {"CMakeLists_txt": CMAKE.replace("say.cpp", "new.cpp"), "new_cpp": SAY.replace("\\n", "?\\n")}
    second = bisected(repository, repository.commit(**other))
    third = bisected(repository, repository.commit(word_cpp='const char *word() { return "three"; }\n'))
    fourth = bisected(repository, repository.commit(README_md="three"))
    before = git(repository.folder, "count-objects", "-v")
    assert steps(provide(home, first)) == 6
    assert said(home, first) == "one\n"
    assert not [event.error for event in provide(home, third) if event.error]
    assert steps(provide(home, second)) <= 4, "one object and what is linked with it"
    assert not [event.error for event in provide(home, fourth) if event.error]
    assert [said(home, each) for each in (first, second, third)] == ["one\n", "one?\n", "three?\n"]
    (folder,) = (home / "builds").iterdir()
    assert not (folder / "0" / "source" / "say.cpp").exists()
    assert sorted(each.name for each in folder.iterdir()) == ["0", "0.lock"]
    (home / "packages" / fourth.folder).rename(home / "fourth")
    assert steps(provide(home, fourth)) == 0, "what differs is no part of the build"
    assert provide(home, first, second, third, fourth) == []
    assert left(home) == {first.folder, second.folder, third.folder, fourth.folder}
    assert not (home / "git").exists(), "the clone is read as it is"
    assert git(repository.folder, "count-objects", "-v") == before
    assert git(repository.folder, "status", "--porcelain") == ""


@needs_compiler
def test_options_are_those_of_the_commit(home: Path, repository: Repository) -> None:
    """Not those that CMake remembers of another commit."""
    silent = bisected(repository, repository.says("one"))
    text = CMAKE.replace('"" OFF', '"" ON')
    assert text != CMAKE
    loud = bisected(repository, repository.commit(CMakeLists_txt=text))
    for found, expected in ((silent, "one\n"), (loud, "one!\n")):
        assert not [event.error for event in provide(home, found) if event.error]
        assert said(home, found) == expected


@needs_compiler
@pytest.mark.parametrize("cores", [2, 64])
def test_builds_at_once_have_folders_of_their_own(
    home: Path, repository: Repository, monkeypatch: pytest.MonkeyPatch, cores: int
) -> None:
    """As many as the machine has cores for: a small one builds one after the other."""
    monkeypatch.setattr("os.sched_getaffinity", lambda _process: range(cores))
    builds = [bisected(repository, repository.says(word)) for word in ("one", "two")]
    assert not [event.error for event in provide(home, *builds) if event.error]
    assert [said(home, each) for each in builds] == ["one\n", "two\n"]
    (folder,) = (home / "builds").iterdir()
    assert {each.name for each in folder.iterdir()} == {"0", "0.lock", *(["1", "1.lock"] if cores > 2 else [])}


@needs_compiler
def test_targets_that_a_commit_lacks_are_left_out(home: Path, repository: Repository) -> None:
    none = bisected(repository, repository.says("one"), targets=("shout",))
    assert "error: no target of the build is there" in failure(home, none)
    found = replace(none, targets=("shout", "say"))
    assert not [event.error for event in provide(home, found) if event.error]
    assert set(read_prefix(home / "packages" / found.folder).programs) == {"say"}


def test_a_command_of_ones_own(home: Path, repository: Repository) -> None:
    """Run by a shell in the checkout; what it leaves there helps the next one."""
    command = 'echo "$JOBS" >> built; mkdir "$PREFIX/bin" && cp say.sh "$PREFIX/bin/say" && chmod +x "$PREFIX/bin/say"'
    nothing = bisected(repository, repository.commit(code="x"), command="true")
    assert failure(home, nothing).endswith("was built, but has no programs in bin")
    shutil.rmtree(home / "builds")
    words = [bisected(repository, repository.commit(say_sh=f"#!/bin/sh\necho {w}\n"), command=command) for w in "ab"]
    for found in words:
        assert not [event.error for event in provide(home, found) if event.error]
    assert [said(home, found) for found in words] == ["a\n", "b\n"]
    (folder,) = (home / "builds").iterdir()
    jobs, again = (folder / "0" / "source" / "built").read_text().split()
    assert int(jobs) == int(again) >= 1


def test_a_build_that_is_ended_cleans_up(home: Path, repository: Repository) -> None:
    """As Ninja does: it gets SIGTERM and some time."""
    command = f"trap 'echo tidy; exit 1' TERM; sleep {FOREVER} & wait"
    found = build(repository, repository.commit(code="x"), command=command, timeout=6)
    assert "cannot be built: not done after 6 s, the limit; see the log" in failure(home, found)
    assert (home / "logs" / f"{found.folder}.log").read_text().splitlines()[-1] == "tidy"
    assert not _sleeping()


@pytest.mark.namespaces
@needs_compiler
def test_a_program_outside_of_the_system(
    home: Path, repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It finds the rest of the prefix that it is installed in, as the CMake of a virtual environment does."""
    cmake = tmp_path / "prefix" / "bin" / "cmake"
    (tmp_path / "prefix" / "share").mkdir(parents=True)
    cmake.parent.mkdir()
    cmake.write_text('#!/bin/sh\n. "${0%/*}/../share/settings"\nexec "$real" "$@"\n')
    cmake.chmod(0o755)
    (tmp_path / "prefix" / "share" / "settings").write_text(f"real={shutil.which('cmake')}\n")
    monkeypatch.setenv("PATH", f"{cmake.parent}:{os.environ['PATH']}")
    found = build(repository, repository.says("one"))
    assert not [event.error for event in provide(home, found) if event.error]


@pytest.mark.namespaces
@needs_compiler
def test_cmake_gets_its_source_to_read(home: Path, repository: Repository) -> None:
    """Only a command of its own may write there."""
    text = CMAKE + 'file(WRITE "${CMAKE_SOURCE_DIR}/new" "x")\n'
    found = build(repository, repository.commit(CMakeLists_txt=text, say_cpp=SAY, word_cpp=""))
    assert "Read-only file system" in failure(home, found)


def test_commits_that_cannot_be_built_are_remembered(home: Path, repository: Repository) -> None:
    """Until the file is removed that is named; one that took too long, unless it gets more time."""
    commit = repository.commit(code="x")
    command = "read answer; echo x >> ran; echo 'code:1: error: it is wrong' >&2; false"
    broken = bisected(repository, commit, command=command)
    error = failure(home, broken)
    assert error.endswith(f"cannot be built: code:1: error: it is wrong; see the log {home}/logs/{broken.folder}.log")
    (note,) = (home / "builds").rglob("*.failed")
    assert failure(home, broken) == f"{error} (tried before; to build it again, remove {note})"
    (ran,) = (home / "builds").rglob("ran")
    assert ran.read_text() == "x\n"
    note.unlink()
    assert failure(home, broken) == error
    assert ran.read_text() == "x\nx\n"
    slow = bisected(repository, commit, command=f"sleep {FOREVER}", timeout=0.5)
    assert "cannot be built: not done after 0.5 s, the limit; see the log" in failure(home, slow)
    assert not _sleeping()
    before = failure(home, replace(slow, timeout=0.2))
    assert "not done after 0.5 s, the limit; see the log" in before
    assert "(tried before;" in before
    again = failure(home, replace(slow, timeout=0.6))
    assert "not done after 0.6 s, the limit; see the log" in again
    assert "(tried before;" not in again


@pytest.mark.parametrize(
    "command",
    [
        "echo 'x.o: No space left on device'; false",
        "echo 'a.cpp:1: error: x'; echo 'as: out.o: Disk quota exceeded'; false",
        "echo 'a.cpp:1: error: x'; echo 'virtual memory exhausted: Cannot allocate memory'; false",
        "echo 'LLVM ERROR: out of memory'; echo 'clang: error: clang frontend command failed'; false",
        "echo 'c++: fatal error: Killed signal terminated program cc1plus'; echo 'make: error: it fails'; false",
        "echo 'make: *** [Makefile:2: all] Error 137'; false",
        "kill -KILL $$",
    ],
)
def test_failures_of_the_machine_are_not_remembered(home: Path, repository: Repository, command: str) -> None:
    """Wherever in the output they are."""
    found = bisected(repository, repository.commit(code="x"), command=command)
    assert "cannot be built: " in failure(home, found)
    assert not list((home / "builds").rglob("*.failed"))


def test_what_another_home_has_built(home: Path, repository: Repository, tmp_path: Path) -> None:
    """It is copied (``--from``), unless it is damaged there."""
    command = 'echo >> ran; mkdir "$PREFIX/bin" && cp "$0/say.sh" "$PREFIX/bin/say" && chmod +x "$PREFIX/bin/say"'
    one, two = (
        bisected(repository, repository.commit(say_sh=f"#!/bin/sh\necho {word}\n"), command=command) for word in "ab"
    )
    theirs = tmp_path / "theirs"
    for found in (one, two):
        provide(theirs, found)
    (theirs / "packages" / two.folder / "bin" / "say").write_text("#!/bin/sh\necho no\n")
    assert not [event.error for event in provide(home, one, two, others=(theirs,)) if event.error]
    assert [said(home, found) for found in (one, two)] == ["a\n", "b\n"]
    assert [path.read_text() for path in (home / "builds").rglob("ran")] == ["\n"], "only the damaged one"
    assert not damaged_files(home / "packages" / one.folder, thorough=True)


def test_what_cannot_be_copied(home: Path, repository: Repository, tmp_path: Path) -> None:
    """The first cause is named, and nothing is left."""
    command = 'mkdir "$PREFIX/bin" && cp say.sh "$PREFIX/bin/say" && chmod +x "$PREFIX/bin/say" && truncate -s 1M "$PREFIX/big"'
    found = bisected(repository, repository.commit(say_sh="#!/bin/sh\n"), command=command)
    theirs = tmp_path / "theirs"
    provide(theirs, found)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, before[1]))
    try:
        (error,) = [event.error for event in provide(home, found, others=(theirs,)) if event.error]
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    where = theirs / "packages" / found.folder
    assert error.startswith(f"{found.label} cannot be copied from {where}: [Errno 27] File too large: ")
    assert left(home) == set()


def test_files_come_when_they_are_checked_out(home: Path, repository: Repository) -> None:
    """From a server that allows it, the mirror of a bisection has commits and folders first."""
    commits = [repository.commit(say_sh=f"#!/bin/sh\necho {word}\n", **{word: word * 99}) for word in "ab"]
    git(repository.folder, "config", "uploadpack.allowFilter", "true")
    address = f"file://{repository.folder}"
    mirror = open_repository(address, home, [commits[0]]).folder

    def blobs() -> int:
        listed = git(mirror, "cat-file", "--batch-all-objects", "--batch-check=%(objecttype)").split()
        return listed.count("blob")

    assert blobs() == 0
    command = 'mkdir "$PREFIX/bin" && cp say.sh "$PREFIX/bin/say" && chmod +x "$PREFIX/bin/say"'
    found = replace(bisected(repository, commits[0], command=command), repository=address)
    assert not [event.error for event in provide(home, found) if event.error]
    assert said(home, found) == "a\n"
    assert blobs() == 2, "those of this commit"
