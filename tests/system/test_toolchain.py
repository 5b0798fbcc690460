"""``matrix toolchain`` as people call it: a catalog with a release of Debian packages and a wheel, both made here and served."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from mlir_matrix.base.digest import digest_bytes
from mlir_matrix.environments.interpreter import SUPPORTED, own
from mlir_matrix.environments.lockfiles.debian import debian_lock_file, read_debian_lock
from mlir_matrix.environments.lockfiles.wheels import lock_file, read_lock, read_pins, write_lock
from support.fake_index import NOWHERE, FakeIndex, open_index
from support.machine import needs, program
from support.workspace import REPOSITORY, ROOMS, Workspace, wait_until


@pytest.fixture(scope="module")
def untouched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FakeIndex]:
    """Of which nothing is ever fetched."""
    with open_index(tmp_path_factory.mktemp("untouched")) as made:
        yield made


def test_lock_wheels(index: FakeIndex) -> None:
    """The closure with its sizes, for each interpreter; the same again."""
    locks = index.catalog / "toolchains" / "locks"
    path = lock_file(locks, "thing", own().tag)
    path.unlink()
    assert index("lock", "thing", "--format", "json").document["summary"] == {"locks": len(SUPPORTED)}
    (found,) = read_lock(path)
    assert found == index.wheel
    size = (index.server.root / "wheels" / "thing-1.0-py3-none-any.whl").stat().st_size
    assert (found.size, read_pins(path)) == (size, "thing==1.0")
    assert len(list(locks.glob("thing-*"))) == len(SUPPORTED), "one for each interpreter"
    before = path.read_bytes()
    assert before.startswith(b"# Made by: matrix toolchain lock thing\n")
    assert f"toolchains/locks/{path.name}: 1 package" in index("lock", "thing", "--python", own().tag).stdout
    assert path.read_bytes() == before
    shutil.rmtree(index.server.root / "wheels")
    failed = index("lock", "thing", "--python", own().tag, code=3)
    assert "thing is not locked for" in failed.stderr
    assert "No matching distribution" in failed.stderr
    assert path.read_bytes() == before


@needs("apt-get")
def test_lock_packages(tmp_path: Path) -> None:
    """From Debian itself: down to the C library, and like the lock that is here."""
    root = tmp_path / "copy"
    for room in ROOMS:
        shutil.copytree(REPOSITORY / room, root / room)
    path = debian_lock_file(root / "toolchains" / "locks", "llvm", "15.0.6")
    before = read_debian_lock(path)
    path.unlink()
    done = Workspace(tmp_path / "home", root=root)("toolchain", "lock", "llvm@15.0.6")
    assert done.code == 0, done.stderr
    found = read_debian_lock(path)
    assert (found.component, found.release, found.programs) == (before.component, before.release, before.programs)
    assert {"libc6", "mlir-15-tools", "llvm-15", "libmlir-15"} <= {package.name for package in found.packages}
    llvm = [{package for package in lock.packages if "15" in package.name} for lock in (found, before)]
    assert llvm[0] == llvm[1]


def test_fetch(index: FakeIndex) -> None:
    """All of it, once: the second time nothing is asked for and nothing changes."""
    done = index("fetch", "both", "tool@2.0")
    assert "2 packages installed: thing 1.0, tool 2.0" in done.stdout
    assert index.installed() == {index.prefix.name, index.site.name}
    before, asked = index.kept(), len(index.server.requests)
    assert asked == len(index.lock.packages)
    assert index("fetch", "both").stdout == done.stdout
    assert len(index.server.requests) == asked
    assert index.kept() == before


def test_fetch_from_a_colleague(index: FakeIndex, tmp_path: Path) -> None:
    """Where nobody else can be reached, and only if told so."""
    index("fetch", "both")
    offline = index.elsewhere(tmp_path / "mine", MATRIX_DEB_MIRROR=NOWHERE, PIP_FIND_LINKS="")
    failed = offline("fetch", "both", code=3)
    assert "thing 1.0 is not on the package indexes" in failed.stderr
    assert re.search(
        r"matrix: tool 2\.0: .* cannot be downloaded: http://127\.0\.0\.1:9 cannot be reached: ", failed.stderr
    )
    assert "Name a mirror that can be reached in apt's configuration or in MATRIX_DEB_MIRROR, or name" in failed.stderr
    assert offline.installed() == set()
    offline("fetch", "both", "--from", index.workspace.home)
    assert offline.installed() == index.installed()
    assert (
        subprocess.run([offline.prefix / ".matrix/bin/say", "x"], capture_output=True, check=True).stdout
        == b"said say x\n"
    )
    # And again from what is now its own.
    shutil.rmtree(offline.workspace.home / "packages")
    offline("fetch", "both")
    assert offline.installed() == index.installed()


def test_what_would_be_fetched(index: FakeIndex) -> None:
    said = index("fetch", "both", "--dry-run").stdout.splitlines()
    packages = index.workspace.home / "packages"
    assert sorted(said) == [f"# {unit}: download and install it in {packages}" for unit in ("thing 1.0", "tool 2.0")]
    assert not packages.exists()


def test_a_colleagues_copy_that_is_damaged(index: FakeIndex, tmp_path: Path) -> None:
    """Is not used, and that is said: who thinks that nothing is fetched any more would not know why it is."""
    index("fetch", "both")
    theirs = index.artifact("tool")
    theirs.write_bytes(theirs.read_bytes()[:-1])
    mine = index.elsewhere(tmp_path / "mine")
    said = mine("fetch", "both", "--from", index.workspace.home).stderr
    found = digest_bytes(theirs.read_bytes())
    assert f"matrix: --from: {theirs} is ignored: its sha256 is {found}" in said
    assert f"expected {theirs.name}\n" in said
    assert mine.installed() == index.installed()


def test_fetch_after_a_kill(index: FakeIndex) -> None:
    """Goes on with what had arrived; nothing half done was there, and nothing is left over."""
    index.server.hold = threading.Event()
    parts = index.workspace.home / "artifacts"
    with index.workspace.start("toolchain", "fetch", "tool", "--quiet", "--catalog", index.catalog) as process:
        assert index.server.reached.wait(120)
        assert wait_until(lambda: any(path.stat().st_size for path in parts.glob("*.part")))
        os.killpg(process.pid, signal.SIGKILL)
    assert not index.prefix.exists()
    index.server.hold.set()
    index.server.hold = None
    index("fetch", "tool")
    assert any(given for _, given in index.server.requests), "it was begun anew"
    assert index.installed() == {index.prefix.name}
    assert list(parts.glob("*.part")) == []
    assert "1 package" in index("verify", "tool").stdout


def test_two_at_once(index: FakeIndex) -> None:
    """Each is served; each file is fetched by one of them."""
    words = ("toolchain", "fetch", "both", "--quiet", "--catalog", index.catalog)
    with index.workspace.start(*words) as one, index.workspace.start(*words) as other:
        said = [process.communicate(timeout=120) for process in (one, other)]
    assert (one.returncode, other.returncode) == (0, 0), said
    assert len(index.server.requests) == len(index.lock.packages)
    assert index.installed() == {index.prefix.name, index.site.name}


def test_list(index: FakeIndex) -> None:
    def rows() -> dict[str, dict[str, object]]:
        document = index("list", "tool", "thing", "--format", "json").document
        assert document["schema"] == "mlir-matrix/toolchain/v1"
        return {f"{row['component']} {row['release']}": row for row in document["releases"]}

    before = rows()
    assert {name: (row["provider"], row["pinned"], row["locked"], row["state"]) for name, row in before.items()} == {
        "tool 1.0": ("deb", False, False, "unavailable"), "tool 2.0": ("deb", True, True, "missing"),
        "thing 1.0": ("pypi", True, True, "missing"),
    }  # fmt: skip
    assert before["tool 2.0"]["bytes"] == {
        "fetch": index.lock.size,
        "to_fetch": index.lock.size,
        "disk": index.lock.installed,
    }
    index("fetch", "both")
    assert {row["state"] for row in rows().values()} == {"unavailable", "installed"}
    shutil.rmtree(index.workspace.home / "packages")
    assert {row["state"] for row in rows().values()} == {"unavailable", "downloaded"}
    # Where a lock does not know sizes, too.
    write_lock(
        lock_file(index.catalog / "toolchains" / "locks", "thing", own().tag),
        [index.wheel],
        made_by="us",
        pins={"thing": "1.0"},
    )
    assert rows()["thing 1.0"]["state"] == "downloaded"
    assert "tool" in index("list").stdout


def test_which(index: FakeIndex) -> None:
    """A path that runs as it stands, and what to do where there is none yet."""
    assert "tool 2.0 is not installed; matrix toolchain fetch tool@2.0" in index("which", "say", code=3).stderr
    index("fetch", "both")
    for tool, said in (
        ("say@2.0", "said say --version\n"),
        ("say", "said say --version\n"),
        ("hello", "hello, --version\n"),
    ):
        path = index("which", tool).stdout.removesuffix("\n")
        done = subprocess.run([path, "--version"], capture_output=True, text=True, check=True, env={}, cwd="/")
        assert done.stdout == said


def test_a_pattern_of_releases(index: FakeIndex) -> None:
    """What it names and has no lock is left out, and told."""
    done = index("fetch", "tool@*")
    assert (
        "tool@1.0 is left out: tool@1.0 has no lock file; make one with: matrix toolchain lock tool@1.0" in done.stderr
    )
    assert index.prefix.is_dir()
    assert index("fetch", "tool@{2,7}").stderr == ""


def test_which_looks_where_programs_are(index: FakeIndex) -> None:
    """Not in a wheel that is pinned, where programs come as packages; in what is asked for, even so."""
    tools = index.catalog / "toolchains"
    component = tools / "components" / "tool.yaml"
    wheel = '  - {release: "3.0", provider: pypi, distributions: {thing: "1.0"}}\n'
    component.write_text(component.read_text() + wheel)
    (tools / "known-good.yaml").write_text('pins: {tool: "3.0"}\nenvironments: {both: {tool: "2.0"}}\n')
    assert "tool 2.0 is not installed; matrix toolchain fetch tool@2.0" in index("which", "say", code=3).stderr
    index("fetch", "both")
    assert index("which", "say").stdout == index("which", "say@2.0").stdout
    for arguments in (("say@3.0",), ("say", "--pin", "tool=3.0")):
        assert "tool 3.0 has no program say" in index("which", *arguments, code=2).stderr


def test_which_in_the_repository(tmp_path: Path) -> None:
    """Where nothing is fetched: what to fetch has the program. The machine's own interpreter is there already."""
    workspace = Workspace(tmp_path / "home")
    done = workspace("toolchain", "which", "mlir-opt")
    assert done.code == 3
    assert re.search(r"llvm \S+ is not installed; matrix toolchain fetch llvm@[0-9.]+$", done.stderr.strip())
    for test, said in (
        (
            "mlir/math-poly/x86_64/asin@llvm=19",
            "matrix: llvm 19.1.7 is not installed; matrix toolchain fetch llvm@19.1.7",
        ),
        # Its importer uses a wheel, and its steps for GPUs programs.
        (
            "mlir/linalg-gpu/xevm-pvc/mlp",
            "matrix: llvm 22.1.8 is not installed; matrix toolchain fetch llvm@22.1.8",
        ),
        ("mlir/linalg-loops/x86_64/mlp", "comes without programs; the nearest release with programs is 2"),
    ):
        done = workspace("toolchain", "which", "mlir-opt", "--for", test)
        assert done.code == 3
        assert said in done.stderr
    assert "give one of them" in workspace("toolchain", "which", "mlir-opt@19", "--for", test).stderr
    name = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    program(name)
    done = workspace("toolchain", "which", name)
    assert done.code == 0, done.stderr
    assert re.fullmatch(rf"{name} of cpython \S+", done.stderr.strip())
    said = subprocess.run([done.stdout.strip(), "--version"], capture_output=True, text=True, check=True).stdout
    assert said.startswith(f"Python {name.removeprefix('python')}.")


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("fetch", "toool"), 2, "there is no environment, component or suite 'toool'; did you mean 'tool'"),
        (("fetch", "tool@9"), 2, "tool has no release '9'; it has 1.0, 2.0"),
        (("fetch", "tool@[3-9]*"), 2, "tool has no release '[3-9]*'; it has 1.0, 2.0"),
        (("fetch", "toll@9"), 2, "there is no environment, component or suite 'toll@9'; did you mean 'tool'?"),
        (("which", "say@"), 2, "'say@': expected TOOL@RELEASE, e.g. say@19"),
        (("fetch", "tool@1.0"), 3, "tool@1.0 has no lock file; make one with: matrix toolchain lock tool@1.0"),
        (("fetch", "both", "--pin", "tool=1.0"), 3, "tool@1.0 has no lock"),
        (("fetch", "tool", "--from", "/nowhere/at/all"), 2, "/nowhere/at/all"),
        (("fetch", "tool", "--pin", "llvm=99"), 2, "llvm has no release '99'; it has"),
        (("fetch", "tool", "--pin", "nonsense"), 2, "--pin nonsense: expected COMPONENT=RELEASE"),
        (("fetch", "tool", "--pin", "nonsense=1"), 2, "--pin: there is no component 'nonsense'"),
        (("fetch", "a/b"), 2, "a/b"),
        (("lock", "nothing"), 2, "there is no environment, component or suite 'nothing'"),
        (("lock", "thing", "--python", "cp27"), 2, "cp27"),
        (("verify", "tool@x"), 2, "tool has no release 'x'"),
        (("list", "toool"), 2, "there is no component 'toool'; did you mean 'tool'"),
        (("which", "syy"), 2, "no component has a tool 'syy'"),
        (("which", "say@7"), 2, "tool has no release '7'"),
        (("which", "say@1.0"), 3, "tool@1.0 has no lock"),
        (("gc", "everything"), 2, "everything"),
    ],
)
def test_what_cannot_be_done(untouched: FakeIndex, arguments: tuple[str, ...], code: int, words: str) -> None:
    done = untouched(*arguments, code=code)
    assert words in done.stderr
    assert done.stdout == ""
    assert not (untouched.workspace.home / "packages").exists() or untouched.installed() == set()
