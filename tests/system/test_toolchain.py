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
from support.downstream import tree
from support.house import REPOSITORY, ROOMS, House, wait_until
from support.machine import needs, program
from support.shop import NOWHERE, Shop, open_shop


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    with open_shop(tmp_path) as made:
        yield made


def test_lock_wheels(shop: Shop) -> None:
    """The closure with its sizes, for each interpreter; the same again."""
    locks = shop.catalog / "toolchains" / "locks"
    path = lock_file(locks, "thing", own().tag)
    path.unlink()
    assert shop("lock", "thing", "--format", "json").document["summary"] == {"locks": len(SUPPORTED)}
    (found,) = read_lock(path)
    assert found == shop.wheel
    size = (shop.server.root / "wheels" / "thing-1.0-py3-none-any.whl").stat().st_size
    assert (found.size, read_pins(path)) == (size, "thing==1.0")
    assert len(list(locks.glob("thing-*"))) == len(SUPPORTED), "one for each interpreter"
    before = path.read_bytes()
    assert before.startswith(b"# Made by: matrix toolchain lock thing\n")
    assert f"toolchains/locks/{path.name}: 1 package" in shop("lock", "thing", "--python", own().tag).stdout
    assert path.read_bytes() == before
    shutil.rmtree(shop.server.root / "wheels")
    failed = shop("lock", "thing", "--python", own().tag, code=3)
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
    done = House(tmp_path / "home", root=root)("toolchain", "lock", "llvm@15.0.6")
    assert done.code == 0, done.stderr
    found = read_debian_lock(path)
    assert (found.component, found.release, found.programs) == (before.component, before.release, before.programs)
    assert {"libc6", "mlir-15-tools", "llvm-15", "libmlir-15"} <= {package.name for package in found.packages}
    llvm = [{package for package in lock.packages if "15" in package.name} for lock in (found, before)]
    assert llvm[0] == llvm[1]


def test_fetch(shop: Shop) -> None:
    """All of it, once: the second time nothing is asked for and nothing changes."""
    done = shop("fetch", "both", "tool@2.0")
    assert "2 packages installed: thing 1.0, tool 2.0" in done.stdout
    assert shop.installed() == {shop.prefix.name, shop.site.name}
    before, asked = tree(shop.house.home), len(shop.server.requests)
    assert asked == len(shop.lock.packages)
    assert shop("fetch", "both").stdout == done.stdout
    assert len(shop.server.requests) == asked
    assert {name: what for name, what in tree(shop.house.home).items() if ".locks" not in name} == {
        name: what for name, what in before.items() if ".locks" not in name
    }


def test_fetch_from_a_colleague(shop: Shop, tmp_path: Path) -> None:
    """Where nobody else can be reached, and only if told so."""
    shop("fetch", "both")
    offline = shop.elsewhere(tmp_path / "mine", MATRIX_DEB_MIRROR=NOWHERE, PIP_FIND_LINKS="")
    failed = offline("fetch", "both", code=3)
    assert "thing 1.0 is not on the package indexes" in failed.stderr
    assert re.search(
        r"matrix: tool 2\.0: .* cannot be downloaded: http://127\.0\.0\.1:9 cannot be reached: ", failed.stderr
    )
    assert "Name a mirror that can be reached in apt's configuration or in MATRIX_DEB_MIRROR, or name" in failed.stderr
    assert offline.installed() == set()
    offline("fetch", "both", "--from", shop.house.home)
    assert offline.installed() == shop.installed()
    assert (
        subprocess.run([offline.prefix / ".matrix/bin/say", "x"], capture_output=True, check=True).stdout
        == b"said say x\n"
    )
    # And again from what is now its own.
    shutil.rmtree(offline.house.home / "packages")
    offline("fetch", "both")
    assert offline.installed() == shop.installed()


def test_what_would_be_fetched(shop: Shop) -> None:
    said = shop("fetch", "both", "--dry-run").stdout.splitlines()
    packages = shop.house.home / "packages"
    assert sorted(said) == [f"# {unit}: download and install it in {packages}" for unit in ("thing 1.0", "tool 2.0")]
    assert not packages.exists()


def test_a_colleagues_copy_that_is_damaged(shop: Shop, tmp_path: Path) -> None:
    """Is not used, and that is said: who thinks that nothing is fetched any more would not know why it is."""
    shop("fetch", "both")
    theirs = shop.artifact("tool")
    theirs.write_bytes(theirs.read_bytes()[:-1])
    mine = shop.elsewhere(tmp_path / "mine")
    said = mine("fetch", "both", "--from", shop.house.home).stderr
    found = digest_bytes(theirs.read_bytes())
    assert f"matrix: --from: {theirs} is ignored: its sha256 is {found}" in said
    assert f"expected {theirs.name}\n" in said
    assert mine.installed() == shop.installed()


def test_fetch_after_a_kill(shop: Shop) -> None:
    """Goes on with what had arrived; nothing half done was there, and nothing is left over."""
    shop.server.hold = threading.Event()
    parts = shop.house.home / "artifacts"
    with shop.house.start("toolchain", "fetch", "tool", "--quiet", "--catalog", shop.catalog) as process:
        assert shop.server.reached.wait(120)
        assert wait_until(lambda: any(path.stat().st_size for path in parts.glob("*.part")))
        os.killpg(process.pid, signal.SIGKILL)
    assert not shop.prefix.exists()
    shop.server.hold.set()
    shop.server.hold = None
    shop("fetch", "tool")
    assert any(given for _, given in shop.server.requests), "it was begun anew"
    assert shop.installed() == {shop.prefix.name}
    assert list(parts.glob("*.part")) == []
    assert "1 package" in shop("verify", "tool").stdout


def test_two_at_once(shop: Shop) -> None:
    """Each is served; each file is fetched by one of them."""
    words = ("toolchain", "fetch", "both", "--quiet", "--catalog", shop.catalog)
    with shop.house.start(*words) as one, shop.house.start(*words) as other:
        said = [process.communicate(timeout=120) for process in (one, other)]
    assert (one.returncode, other.returncode) == (0, 0), said
    assert len(shop.server.requests) == len(shop.lock.packages)
    assert shop.installed() == {shop.prefix.name, shop.site.name}


def test_list(shop: Shop) -> None:
    def rows() -> dict[str, dict[str, object]]:
        document = shop("list", "tool", "thing", "--format", "json").document
        assert document["schema"] == "mlir-matrix/toolchain/v1"
        return {f"{row['component']} {row['release']}": row for row in document["releases"]}

    before = rows()
    assert {name: (row["provider"], row["pinned"], row["locked"], row["state"]) for name, row in before.items()} == {
        "tool 1.0": ("deb", False, False, "unavailable"), "tool 2.0": ("deb", True, True, "missing"),
        "thing 1.0": ("pypi", True, True, "missing"),
    }  # fmt: skip
    assert before["tool 2.0"]["bytes"] == {
        "fetch": shop.lock.size,
        "to_fetch": shop.lock.size,
        "disk": shop.lock.installed,
    }
    shop("fetch", "both")
    assert {row["state"] for row in rows().values()} == {"unavailable", "installed"}
    shutil.rmtree(shop.house.home / "packages")
    assert {row["state"] for row in rows().values()} == {"unavailable", "downloaded"}
    # Where a lock does not know sizes, too.
    write_lock(
        lock_file(shop.catalog / "toolchains" / "locks", "thing", own().tag),
        [shop.wheel],
        made_by="us",
        pins={"thing": "1.0"},
    )
    assert rows()["thing 1.0"]["state"] == "downloaded"
    assert "tool" in shop("list").stdout


def test_which(shop: Shop) -> None:
    """A path that runs as it stands, and what to do where there is none yet."""
    assert "tool 2.0 is not installed; matrix toolchain fetch tool@2.0" in shop("which", "say", code=3).stderr
    shop("fetch", "both")
    for tool, said in (
        ("say@2.0", "said say --version\n"),
        ("say", "said say --version\n"),
        ("hello", "hello, --version\n"),
    ):
        path = shop("which", tool).stdout.removesuffix("\n")
        done = subprocess.run([path, "--version"], capture_output=True, text=True, check=True, env={}, cwd="/")
        assert done.stdout == said


def test_a_pattern_of_releases(shop: Shop) -> None:
    """What it names and has no lock is left out, and told."""
    done = shop("fetch", "tool@*")
    assert (
        "tool@1.0 is left out: tool@1.0 has no lock file; make one with: matrix toolchain lock tool@1.0" in done.stderr
    )
    assert shop.prefix.is_dir()
    assert shop("fetch", "tool@{2,7}").stderr == ""


def test_which_looks_where_programs_are(shop: Shop) -> None:
    """Not in a wheel that is pinned, where programs come as packages; in what is asked for, even so."""
    tools = shop.catalog / "toolchains"
    component = tools / "components" / "tool.yaml"
    wheel = '  - {release: "3.0", provider: pypi, distributions: {thing: "1.0"}}\n'
    component.write_text(component.read_text() + wheel)
    (tools / "known-good.yaml").write_text('pins: {tool: "3.0"}\nenvironments: {both: {tool: "2.0"}}\n')
    assert "tool 2.0 is not installed; matrix toolchain fetch tool@2.0" in shop("which", "say", code=3).stderr
    shop("fetch", "both")
    assert shop("which", "say").stdout == shop("which", "say@2.0").stdout
    for arguments in (("say@3.0",), ("say", "--pin", "tool=3.0")):
        assert "tool 3.0 has no program say" in shop("which", *arguments, code=2).stderr


def test_which_in_the_repository(tmp_path: Path) -> None:
    """Where nothing is fetched: what to fetch has the program. The machine's own interpreter is there already."""
    house = House(tmp_path / "home")
    done = house("toolchain", "which", "mlir-opt")
    assert done.code == 3
    assert re.search(r"llvm \S+ is not installed; matrix toolchain fetch llvm@[0-9.]+$", done.stderr.strip())
    name = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    program(name)
    done = house("toolchain", "which", name)
    assert done.code == 0, done.stderr
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
def test_what_cannot_be_done(shop: Shop, arguments: tuple[str, ...], code: int, words: str) -> None:
    done = shop(*arguments, code=code)
    assert words in done.stderr
    assert done.stdout == ""
    assert not (shop.house.home / "packages").exists() or shop.installed() == set()
