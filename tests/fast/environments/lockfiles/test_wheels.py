"""Read lock files in pip's format strictly, because names become folders and anybody may have written them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from hypothesis import strategies

from mlir_matrix.base.errors import CatalogError
from mlir_matrix.environments.lockfiles.wheels import (
    WheelPackage,
    find_lock,
    lock_file,
    read_lock,
    read_pins,
    write_lock,
)
from support.debs import quickly

A, B = "a" * 64, "b" * 64


def locks(folder: Path) -> Path:
    made = folder / "catalog" / "toolchains" / "locks"
    made.mkdir(parents=True, exist_ok=True)
    return made


def lock(folder: Path, content: str | bytes) -> Path:
    path = locks(folder) / "x-cp311-linux-x86_64.txt"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


packages = strategies.builds(
    WheelPackage,
    name=strategies.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,20}", fullmatch=True),
    version=strategies.from_regex(r"[0-9][A-Za-z0-9.+!]{0,10}", fullmatch=True),
    hashes=strategies.lists(strategies.from_regex(r"[0-9a-f]{64}", fullmatch=True), min_size=1, max_size=3).map(tuple),
    size=strategies.none() | strategies.integers(0, 10**12),
    installed=strategies.none() | strategies.integers(0, 10**12),
)


PINS = {"b": "2", "a": "1+cpu"}
PINNED = [WheelPackage(name=name, version=version, hashes=(A,)) for name, version in PINS.items()]


@hypothesis.given(strategies.lists(packages, max_size=5))
def test_what_is_written_is_read(tmp_path_factory: pytest.TempPathFactory, given: list[WheelPackage]) -> None:
    path = locks(tmp_path_factory.mktemp("lock")) / "x.txt"
    names = dict.fromkeys(PINS)
    given = PINNED + [
        each for each in given if names.setdefault(re.sub(r"[-_.]+", "-", each.name).lower(), each) is each
    ]
    with quickly():
        write_lock(path, given, made_by="matrix toolchain lock x", pins=PINS)
    assert read_lock(path) == tuple(sorted(given))
    assert path.read_text().splitlines()[:2] == ["# Made by: matrix toolchain lock x", "# Pins: a==1+cpu b==2"]
    assert read_pins(path) == "a==1+cpu b==2"
    sizes = {(each.name, each.version, each.hashes): (each.size, each.installed) for each in sorted(given)}
    for each in read_lock(path):
        known = sizes[each.name, each.version, each.hashes]
        assert (each.size, each.installed) == ((None, None) if None in known else known)


def test_comments_and_gaps(tmp_path: Path) -> None:
    path = lock(
        tmp_path, f"# first\n\na==1 --hash=sha256:{A}  # why\n   \nb==2+cpu --hash=sha256:{A} --hash=sha256:{B}\n"
    )
    assert read_lock(path) == (
        WheelPackage(name="a", version="1", hashes=(A,)), WheelPackage(name="b", version="2+cpu", hashes=(A, B)),
    )  # fmt: skip


@pytest.mark.parametrize(
    "line",
    [
        "numpy", "numpy==1", "numpy>=1 --hash=sha256:" + A, "numpy==1 --hash=sha256:" + A[:-1], "numpy==1 --hash=md5:" + A[:32],
        "../numpy==1 --hash=sha256:" + A, "a/b==1 --hash=sha256:" + A, ".a==1 --hash=sha256:" + A, "-r other.txt",
        "numpy==../1 --hash=sha256:" + A, "numpy==1;x --hash=sha256:" + A, "numpy @ file:///etc --hash=sha256:" + A,
        "--index-url https://host.invalid", "-e .", "numpy==1 \\", "numpy==1 --hash=sha256:" + A.upper(),
        "numpy==1 --hash=sha256:" + A + " --global-option=x", "nümpy==1 --hash=sha256:" + A,
        "n" * 102 + "==1 --hash=sha256:" + A, "numpy==" + "1" * 101 + " --hash=sha256:" + A,
    ],
)  # fmt: skip
def test_anything_else_is_refused(tmp_path: Path, line: str) -> None:
    path = lock(tmp_path, f"# one\na==1 --hash=sha256:{A}\n{line}\n")
    with pytest.raises(CatalogError, match=rf"^{path}:3:1: expected «name==version --hash=sha256:…», got '"):
        read_lock(path)


@pytest.mark.parametrize(
    "sizes", ["size=1", "size= installed=1", "size=-1 installed=1", "size=1 installed=1 more", f"size={'1' * 5000} installed=1",
              f"size=1 installed={'9' * 14}", "size=١ installed=1"],
)  # fmt: skip
def test_sizes_that_are_none(tmp_path: Path, sizes: str) -> None:
    """Are refused, not taken for a comment; and no number is too large to be read."""
    path = lock(tmp_path, f"a==1 --hash=sha256:{A}  # {sizes}\n")
    with pytest.raises(CatalogError, match=rf"^{path}:1:86: expected «# size=BYTES installed=BYTES», got '# size="):
        read_lock(path)


def test_the_longest_names_become_folders(tmp_path: Path) -> None:
    """Also those that are made beside them."""
    (package,) = read_lock(
        lock(tmp_path, f"{'n' * 91}=={'1' * 90} --hash=sha256:{A}  # size=1 installed=9999999999999\n")
    )
    (tmp_path / f".new-{package.folder_for('cp311')}-damaged-4194304").mkdir()
    assert package.installed == 9_999_999_999_999


@pytest.mark.parametrize("again", ["a-b==1", "A.B==2", "a__b==1"])
def test_duplicate_package_is_refused(tmp_path: Path, again: str) -> None:
    """However it is written."""
    path = lock(tmp_path, f"a-b==1 --hash=sha256:{A}\nc==1 --hash=sha256:{A}\n{again} --hash=sha256:{A}\n")
    with pytest.raises(CatalogError, match=rf"^{path}:3:1: duplicate package '{again.split('=', maxsplit=1)[0]}'"):
        read_lock(path)


@pytest.mark.parametrize(
    ("pins", "column", "words"),
    [
        ("a==1 c==1", 14, "c==1 is pinned, but this lock file does not have c"),
        ("a==2", 9, "a==2 is pinned, but this lock file has a==1.0"),
        ("a==1+cpu", 9, "but this lock file has a==1.0"), ("B-b==2.13", 9, "but this lock file has b_b==2.13.1+cpu"),
        ("a", 9, "expected «name==version», got 'a'"),
        ("a==1 ../b==1", 14, "expected «name==version»"),
    ],
)  # fmt: skip
def test_pins_that_it_does_not_have(tmp_path: Path, pins: str, column: int, words: str) -> None:
    path = lock(
        tmp_path, f"# Made by: x\n# Pins: {pins}\na==1.0 --hash=sha256:{A}\nb_b==2.13.1+cpu --hash=sha256:{A}\n"
    )
    with pytest.raises(CatalogError, match=rf"^{path}:2:{column}: .*{re.escape(words)}"):
        read_lock(path)


@pytest.mark.parametrize("pins", ["a==1", "a==1.0.0 B.b==2.13.1", "b_b==2.13.1+cpu", ""])
def test_pins_that_it_has(tmp_path: Path, pins: str) -> None:
    """As pip takes names and versions."""
    path = lock(tmp_path, f"# Pins: {pins}\na==1.0 --hash=sha256:{A}\nb_b==2.13.1+cpu --hash=sha256:{A}\n")
    assert len(read_lock(path)) == 2


def test_what_it_must_have_where_it_does_not_say(tmp_path: Path) -> None:
    """The pins that it states have priority over those that are expected."""
    path = lock(tmp_path, f"a==1.0 --hash=sha256:{A}\n")
    assert len(read_lock(path, {"a": "1"})) == len(read_lock(path)) == 1
    with pytest.raises(CatalogError, match=rf"^{path}:1:1: b==1 is pinned, but this lock file does not have b$"):
        read_lock(path, {"a": "1.0", "b": "1"})
    path.write_text(f"# Pins: a==1.0\n{path.read_text()}")
    assert len(read_lock(path, {"b": "1"})) == 1


@pytest.mark.parametrize("harm", ["full disk", "killed"])
def test_what_is_written_is_whole(tmp_path: Path, harm: str) -> None:
    """Or what was there before."""
    path = locks(tmp_path) / "x.txt"
    write_lock(path, PINNED, made_by="one", pins=PINS)
    before = path.read_text()
    code = (
        "import os, resource, signal, sys\nfrom pathlib import Path\n"
        "from mlir_matrix.environments.lockfiles.wheels import WheelPackage, write_lock\n"
        f"packages = [WheelPackage(name=f'n{{each}}', version='1', hashes=('{A}',)) for each in range(10000)]\n"
        f"if {harm!r} == 'killed': os.fsync = lambda _: os.kill(os.getpid(), signal.SIGKILL)\n"
        "else: resource.setrlimit(resource.RLIMIT_FSIZE, (100000, resource.RLIM_INFINITY))\n"
        "try: write_lock(Path(sys.argv[1]), packages, made_by='x', pins={})\n"
        "except Exception as error: print(type(error).__name__, error)\n"
    )
    tools = Path(sys.modules[write_lock.__module__].__file__ or "").parents[3]
    words, environment = [sys.executable, "-c", code, str(path)], {**os.environ, "PYTHONPATH": str(tools)}
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
    assert path.read_text() == before
    if harm == "full disk":
        assert done.stdout.startswith(f"DiskFullError {path} cannot be written: the disk is full"), done
        assert [each.name for each in path.parent.iterdir()] == ["x.txt"]
    assert not list(path.parent.glob("*.txt"))[1:]


def test_bytes_that_are_no_text(tmp_path: Path) -> None:
    with pytest.raises(CatalogError, match=r":1:1: is not UTF-8"):
        read_lock(lock(tmp_path, b"\xff"))
    with pytest.raises(CatalogError, match="control character"):
        read_lock(lock(tmp_path, b"a\x1b"))
    with pytest.raises(CatalogError, match="larger than 1 MiB"):
        read_lock(lock(tmp_path, b"#" * (2 << 20)))


def test_a_link_that_leaves_the_catalog(tmp_path: Path) -> None:
    """The message would quote the content of the file, for example of /etc/passwd."""
    (tmp_path / "secret").write_text("secret")
    path = locks(tmp_path) / "x.txt"
    path.symlink_to(tmp_path / "secret")
    with pytest.raises(CatalogError, match="symbolic link that leaves the catalog") as caught:
        read_lock(path)
    assert "secret" not in str(caught.value).replace(str(path), "")


def test_a_link_that_stays(tmp_path: Path) -> None:
    path = locks(tmp_path) / "y.txt"
    path.symlink_to(lock(tmp_path, f"a==1 --hash=sha256:{A}\n").name)
    assert read_lock(path)[0].name == "a"


@pytest.mark.parametrize(
    "changed", [{"name": "b"}, {"version": "2"}, {"hashes": (B,)}, {"hashes": (A, B)}, {"hashes": (B, A)}], ids=str
)
def test_folder_names(changed: dict[str, Any]) -> None:
    """All hashes count: a lock file that adds a hash to those of another lock file names another folder."""
    package = WheelPackage(name="a", version="1", hashes=(A,))
    names = {each.folder_for(tag) for each in (package, replace(package, **changed)) for tag in ("cp311", "cp312")}
    assert len({name.rpartition("-")[2] for name in names}) == 4


def test_the_order_of_hashes_does_not_matter() -> None:
    one, other = (WheelPackage(name="a", version="1", hashes=hashes) for hashes in ((A, B), (B, A)))
    assert one.folder_for("cp311") == other.folder_for("cp311")


def test_names() -> None:
    package = WheelPackage(name="torch", version="2.13.0+cpu", hashes=(A, B))
    assert package.requirement == f"torch==2.13.0+cpu --hash=sha256:{A} --hash=sha256:{B}"
    assert re.fullmatch(r"torch-2\.13\.0\+cpu-cp311-[0-9a-f]{32}", package.folder_for("cp311"))
    assert lock_file(Path("/l"), "mlir", "cp312") == Path("/l/mlir-cp312-linux-x86_64.txt")
    assert lock_file(Path("/l"), "iree", "cp312", {"b": "2", "a": "1"}).name == "iree@a=1,b=2-cp312-linux-x86_64.txt"


@pytest.mark.parametrize(
    ("text", "pins"),
    [
        ("# Pins: a==1\n", "a==1"), ("# Made by: x\n#\n#\n#\n# Pins: a==1\n", "a==1"), ("# Pins:\n", ""), ("", None),
        ("#\n" * 5 + "# Pins: a==1\n", None), ("a==1\n", None),
    ],
)  # fmt: skip
def test_what_a_lock_says_that_it_pins(tmp_path: Path, text: str, pins: str | None) -> None:
    assert read_pins(lock(tmp_path, text)) == pins


def test_nothing_is_said_where_there_is_no_file(tmp_path: Path) -> None:
    assert read_pins(tmp_path) is None
    assert read_pins(tmp_path / "no") is None


def test_the_lock_that_pins_what_is_wanted(tmp_path: Path) -> None:
    """The environment's own first, then anyone's; the first catalog's before another's; never one for other pins."""
    first, second = locks(tmp_path / "1"), locks(tmp_path / "2")

    def make(folder: Path, name: str, tag: str = "cp311", **pins: str) -> Path:
        path = folder / f"{name}-{tag}-linux-x86_64.txt"
        write_lock(path, [], made_by="x", pins=pins)
        return path

    def found(**pins: str) -> Path | None:
        return find_lock([tmp_path / "none", first, second], "x", "cp311", pins)

    make(first, "x", "cp312", a="1")
    assert found(a="1") is None
    theirs = make(second, "x@a=1", a="1")
    assert found(a="1") == theirs
    other = make(first, "other", a="1")
    assert found(a="1") == other
    own = make(second, "x", a="1")
    assert found(a="1") == own
    assert make(first, "x", a="2") == found(a="2")
    assert found(a="1") == own
    assert found(a="1", b="1") is None
    # One that says nothing, made by hand say, is its own environment's; what it must have shows when it is read.
    (first / "x-cp311-linux-x86_64.txt").write_text("")
    assert found(a="3") == first / "x-cp311-linux-x86_64.txt"
