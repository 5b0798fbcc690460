"""Read lock files of Debian packages strictly, because their values become URLs and folders."""

from __future__ import annotations

import dataclasses
import datetime
import os
import re
from pathlib import Path

import hypothesis
import pytest
from hypothesis import strategies

from mlir_matrix.base.errors import CatalogError
from mlir_matrix.environments.lockfiles import debian
from mlir_matrix.environments.lockfiles.debian import (  # fmt: skip
    DebianPackage,
    DebianRelease,
    debian_lock_file,
    parse_debian_lock,
    read_debian_lock,
    write_debian_lock,
)
from mlir_matrix.environments.lockfiles.wheels import WheelPackage
from support.debs import quickly

A = "a" * 64
HEAD = 'component: llvm\nrelease: "19.1.7"\n'
LINE = (
    f'  zlib1g: {{version: "1:1.2.13.dfsg-1", size: 86688, installed: 171008, sha256: "{A}", suite: bookworm, '
    "path: pool/main/z/zlib/zlib1g_1.2.13.dfsg-1_amd64.deb}"
)
GOOD = f"packages:\n{LINE}\n"
MADE = "# Made by: matrix toolchain lock llvm@19.1.7 (2026-11-21)\n"
DAY = datetime.date(2026, 11, 21)

packages = strategies.builds(
    DebianPackage,
    name=strategies.from_regex(r"[a-z0-9][a-z0-9+.-]{1,20}", fullmatch=True),
    version=strategies.from_regex(r"([0-9]:)?[0-9][A-Za-z0-9.+~-]{0,10}", fullmatch=True),
    size=strategies.integers(0, 10**12),
    installed=strategies.integers(0, 10**12),
    sha256=strategies.from_regex(r"[0-9a-f]{64}", fullmatch=True),
    suite=strategies.sampled_from(["bookworm", "trixie-backports", "sid"]),
    path=strategies.from_regex(
        r"pool/main/[a-z]/[a-z0-9+-]{1,9}/[a-z0-9][A-Za-z0-9.+~_-]{0,9}\.deb", fullmatch=True
    ).filter(lambda path: all(part[0].isalnum() for part in path.split("/"))),
)


@hypothesis.given(strategies.lists(packages, min_size=1, max_size=5, unique_by=lambda package: package.name))
def test_what_is_written_is_read(tmp_path_factory: pytest.TempPathFactory, given: list[DebianPackage]) -> None:
    lock = DebianRelease(
        component="llvm", release="24.0.0+deb.1", packages=tuple(given), programs=("usr/lib/llvm-24/bin", "usr/bin")
    )
    path = debian_lock_file(tmp_path_factory.mktemp("l") / "c" / "toolchains" / "locks", lock.component, lock.release)
    with quickly():
        write_debian_lock(path, lock, made=DAY)
    read = read_debian_lock(path)
    assert read == dataclasses.replace(lock, packages=tuple(sorted(given)))
    assert (read.digest, read.size, read.installed) == (lock.digest, lock.size, lock.installed)


def test_debian_lock_round_trip() -> None:
    lock = parse_debian_lock(f"{HEAD}# why\n{GOOD}", "f")
    assert lock.text(made=DAY) == f"{MADE}{HEAD}{GOOD}"
    assert (lock.label, lock.size, lock.installed) == ("llvm 19.1.7", 86688, 171008)
    assert lock.packages[0].label == "zlib1g 1:1.2.13.dfsg-1"
    assert debian_lock_file(Path("/l"), "llvm", "19.1.7") == Path("/l/llvm-19.1.7-linux-x86_64.yaml")


def test_words_that_are_no_text() -> None:
    """Names and hashes that a YAML reader takes for something else are quoted."""
    package = DebianPackage(
        name="no", version="1", size=1, installed=1, sha256="1" * 64, suite="on", path="pool/a/b.deb"
    )
    lock = DebianRelease(component="true", release="1.10", packages=(package,))
    assert parse_debian_lock(lock.text(made=DAY), "f") == lock


@pytest.mark.parametrize(("word", "finish"), [("patched", ""), ("bazel", "bazel")])
def test_in_place(word: str, finish: str) -> None:
    lock = parse_debian_lock(f"{HEAD}in_place: {word}\n{GOOD}", "f")
    assert (lock.in_place, lock.finish) == (True, finish)
    assert lock.text(made=DAY) == f"{MADE}{HEAD}in_place: {word}\n{GOOD}"
    with pytest.raises(CatalogError, match=r"f:3:1: in_place: expected patched or bazel, got 'rm'"):
        parse_debian_lock(f"{HEAD}in_place: rm\n{GOOD}", "f")


def test_debian_lock_digest_covers_content() -> None:
    """It covers content, not suite and path; the folder also depends on the programs."""
    lock = parse_debian_lock(HEAD + GOOD, "f")
    moved = parse_debian_lock(HEAD + GOOD.replace("bookworm", "trixie").replace("pool/main/z", "pool/updates/z"), "f")
    other = parse_debian_lock(HEAD + GOOD.replace(A, "b" * 64), "f")
    assert lock.digest == moved.digest != other.digest
    assert lock.folder == moved.folder != other.folder
    assert re.fullmatch(r"llvm-19\.1\.7-[0-9a-f]{32}", lock.folder)
    assert lock.folder != dataclasses.replace(lock, programs=("usr/bin",)).folder
    assert lock.digest == dataclasses.replace(lock, programs=("usr/bin",)).digest


def test_the_program_that_patches_decides_the_folder() -> None:
    """Another catalog may lock another PatchELF, which writes other bytes into the programs; keys do not change."""
    lock = parse_debian_lock(f"{HEAD}in_place: patched\n{GOOD}", "f")
    patchers = (WheelPackage(name="patchelf", version="1", hashes=hashes) for hashes in ((A,), (A, "b" * 64)))
    one, other = (dataclasses.replace(lock, patcher=patcher) for patcher in patchers)
    assert len({lock.folder, one.folder, other.folder}) == 3
    assert lock.identity == one.identity == other.identity


def test_identity(monkeypatch: pytest.MonkeyPatch) -> None:
    """What environments are known by: which of two programs that share a name counts, and how a prefix is laid out."""
    one = parse_debian_lock(HEAD + GOOD, "f")
    two, three = (dataclasses.replace(one, programs=programs) for programs in (("a", "b"), ("b", "a")))
    moved = parse_debian_lock(HEAD + GOOD.replace("bookworm", "trixie"), "f")
    assert one.identity == moved.identity
    monkeypatch.setattr(debian, "_LAYOUT", debian._LAYOUT + 1)
    anew = dataclasses.replace(one)
    assert len({tuple(each.identity) for each in (one, two, three, anew)}) == 4
    assert len({each.folder for each in (one, two, three, anew)}) == 4


def changed(old: str, new: str) -> str:
    assert old in LINE
    return LINE.replace(old, new)


VERSION, SIZE, HASH, SUITE, FILE = range(-5, 0)
FIELDS = {VERSION: "version", SIZE: "size", HASH: "sha256", SUITE: "suite", FILE: "path"}


@pytest.mark.parametrize(
    ("line", "column", "problem"),
    [
        ("  zlib1g: 1", 3, "expected 'zlib1g' with version, size"),
        (changed("suite:", "more: 1, suite:"), 3, "expected 'zlib1g' with"),
        (changed(" size: 86688,", ""), 3, "expected 'zlib1g' with"), (changed("size:", "Size:"), 3, "expected 'zlib1g' with"),
        (changed("zlib1g: ", "../zlib1g: "), 3, "a name of a Debian"), (changed("zlib1g: ", "$(id): "), 3, "a name of a"),
        (changed("zlib1g: ", "Zlib1g: "), 3, "a name of a"), (changed("zlib1g: ", "-o: "), 3, "a name of a"),
        (changed("1:1.2.13.dfsg-1", "1;id"), VERSION, "a version"), (changed("1:1.2.13.dfsg-1", "../1"), VERSION, "a version"),
        (changed('"1:1.2.13.dfsg-1"', "12"), VERSION, "a version"), (changed("86688", "true"), SIZE, "a number"),
        (changed("86688", "-1"), SIZE, "a number"), (changed("86688", "1.5"), SIZE, "a number"),
        (changed("86688", "9" * 15), SIZE, "a number"), (changed("86688", "some"), SIZE, "a number"),
        (changed(A, "A" * 64), HASH, "a SHA-256"), (changed(A, A[1:]), HASH, "a SHA-256"),
        (changed("bookworm", "book`id`"), SUITE, "a suite"), (changed("bookworm", "-t"), SUITE, "a suite"),
        (changed("pool/", "/pool/"), FILE, "a path"), (changed("pool/main", "pool/../../main"), FILE, "a path"),
        (changed("pool/main", "pool//main"), FILE, "a path"), (changed("pool/main", "pool/main;id"), FILE, "a path"),
        (changed("pool/main", "pool/.hidden"), FILE, "a path"), (changed("pool/", "dists/"), FILE, "a path"),
        (changed("pool/", "http://host.invalid/pool/"), FILE, "a path"), (changed("_amd64.deb", "_amd64.tar"), FILE, "a path"),
        (changed("main/z", "main/%2e%2e/z"), FILE, "a path"), (changed("zlib1g_1", "zlib1g?_1"), FILE, "a path"),
    ],
)  # fmt: skip
def test_anything_else_is_refused(line: str, column: int, problem: str) -> None:
    with pytest.raises(CatalogError, match=rf"^f:5:.*{problem}") as caught:
        parse_debian_lock(f"{HEAD}# why\npackages:\n{line}\n", "f")
    position = line.find(f"{FIELDS[column]}:") + 1 if column in FIELDS else column
    assert str(caught.value).startswith(f"f:5:{position}: ")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", r"^f:1:1: the file is empty"), (GOOD, r"^f:1:1: component: expected a name, got nothing"),
        (HEAD, r"^f:1:1: packages: expected packages \(NAME:"), (HEAD + "packages: []", r"^f:3:1: packages: expected packages"),
        (HEAD.replace("llvm", "../x") + GOOD, r"^f:1:1: component: expected a name, got '\.\./x'"),
        (HEAD.replace('"19.1.7"', "19.1") + GOOD, r"^f:2:1: release: expected a name, got '19\.1'"),
        (HEAD + "programs: [usr/bin, ../bin]\n" + GOOD, r"^f:3:21: programs: expected a folder .*, got '\.\./bin'"),
        (HEAD + "programs: [/usr/bin]\n" + GOOD, r"^f:3:12: programs: expected a folder"),
        (HEAD + "programs: usr/bin\n" + GOOD, r"^f:3:1: programs: expected a list of folders"),
        (HEAD + GOOD + LINE, r"^f:5:3: the key 'zlib1g' is a duplicate; first at 4:3"),
        (HEAD + "more: 1\n" + GOOD, r"^f:3:1: unknown key 'more'"),
    ],
)  # fmt: skip
def test_debian_lock_with_wrong_structure_is_refused(text: str, problem: str) -> None:
    with pytest.raises(CatalogError, match=problem):
        parse_debian_lock(text, "f")


def test_it_is_written_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A concurrent reader gets the old file."""
    lock = parse_debian_lock(HEAD + GOOD, "f")
    path = debian_lock_file(tmp_path / "c" / "toolchains" / "locks", lock.component, lock.release)
    write_debian_lock(path, lock, made=DAY)
    seen = []
    replace = os.replace
    monkeypatch.setattr(os, "replace", lambda *given: (seen.append(path.read_text()), replace(*given)))
    write_debian_lock(path, dataclasses.replace(lock, programs=("usr/bin",)), made=DAY)
    assert seen == [lock.text(made=DAY)]
    assert read_debian_lock(path).programs == ("usr/bin",)
    assert list(path.parent.iterdir()) == [path]


@hypothesis.given(strategies.text())
def test_no_text_ends_in_a_traceback(text: str) -> None:
    try:
        parse_debian_lock(HEAD + text, "f")
    except CatalogError:
        return


def test_debian_lock_file_must_match_its_name(tmp_path: Path) -> None:
    """A name that disagrees, a link out, no file at all."""
    locks = tmp_path / "c" / "toolchains" / "locks"
    locks.mkdir(parents=True)
    path = locks / "llvm-19.1.8-linux-x86_64.yaml"
    path.write_text(HEAD + GOOD)
    with pytest.raises(CatalogError, match=rf"^{path}:1:1: locks llvm@19\.1\.7"):
        read_debian_lock(path)
    (tmp_path / "out").write_text(HEAD + GOOD)
    link = locks / "llvm-19.1.7-linux-x86_64.yaml"
    link.symlink_to(tmp_path / "out")
    with pytest.raises(CatalogError, match="link that leaves the catalog"):
        read_debian_lock(link)
    with pytest.raises(CatalogError, match="cannot be read"):
        read_debian_lock(locks / "x")
