"""Install Debian releases from a local mirror: complete or not at all; find and repair damage; move and run."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import re
import shutil
import subprocess
import threading
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path

import pytest

from mlir_matrix.base.errors import CatalogError, InfrastructureError
from mlir_matrix.base.events import PackageProgress
from mlir_matrix.base.files import Cancelled
from mlir_matrix.environments.fetch.artifacts import Artifacts
from mlir_matrix.environments.fetch.download import NotFoundError
from mlir_matrix.environments.fetch.http import Routes
from mlir_matrix.environments.install import debian
from mlir_matrix.environments.install.debian import provide
from mlir_matrix.environments.install.debian_archive import BadArchive
from mlir_matrix.environments.installed.integrity import damaged_files, remove
from mlir_matrix.environments.installed.prefix import Prefix, PrefixProgram, read_prefix, script, wrapper
from mlir_matrix.environments.lockfiles.debian import DebianRelease
from mlir_matrix.environments.machine import HOST
from support.debs import SCRIPT, Member, Mirror, control_text, elf, folder, link, release
from support.loopback import serve
from support.machine import start_python


class Stage:
    """A mirror, a store and a folder for prefixes."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.mirror = Mirror(root / "debian")
        self.lock = release(self.mirror)
        self.artifacts = Artifacts(root / "home" / "artifacts")
        self.packages = root / "home" / "packages"
        self.bases: Sequence[str] = (self.mirror.base,)

    def provide(self, lock: DebianRelease | None = None, **options: object) -> Path:
        given = {"artifacts": self.artifacts, "packages": self.packages, "mirrors": lambda: self.bases, **options}
        return provide(lock or self.lock, **given)  # type: ignore[arg-type]

    @property
    def left(self) -> list[str]:
        return sorted(path.name for path in self.packages.iterdir() if path.name != ".locks")


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "*")


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path)


def nobody() -> Sequence[str]:
    raise AssertionError("nothing is to be fetched")


def test_a_prefix(stage: Stage) -> None:
    """Complete, told about, and the second time it is there at once, without asking for mirrors."""
    events: list[PackageProgress] = []
    assert stage.artifacts.to_fetch(stage.lock) == stage.lock.size
    made = stage.provide(listener=events.append)
    assert made == stage.packages / stage.lock.folder
    assert stage.artifacts.to_fetch(stage.lock) == 0
    assert (made / "usr/lib/l1").read_bytes() == b"\1" * 5000
    assert damaged_files(made, thorough=True) == damaged_files(made, thorough=False) == []
    assert (events[-1].phase, events[-1].received) == ("installing", events[-1].total)
    assert stage.left == [stage.lock.folder]
    assert stage.provide(mirrors=nobody) == made
    shutil.rmtree(made)
    events.clear()
    assert stage.provide(mirrors=nobody, listener=events.append) == made
    assert {event.phase for event in events} == {"installing"}


@pytest.mark.parametrize(
    ("control", "words"),
    [
        (control_text("libc6", "1"), "its Package is 'libc6', expected other"),
        (control_text("other", "2"), "its Version is '2', expected 1"),
        (control_text("other", "1", "vax"), f"its Architecture is 'vax', expected {HOST.debian} or all"),
        ("Package: other\n\nVersion: 1\n", "its Version is 'None', expected 1"),
        ("?" * 2_000_000, "has no file 'control' of at most 1048576 bytes"),
    ],
    ids=str,
)  # fmt: skip
def test_another_package(stage: Stage, control: str, words: str) -> None:
    """What the package states must be what the lock file states."""
    package = stage.mirror.add("other", version="1", control=control)
    stage.lock = replace(stage.lock, packages=(*stage.lock.packages, package))
    with pytest.raises(
        BadArchive, match=rf"^tool 2\.0: other 1: control.*: {re.escape(words)}; the package was not installed$"
    ):
        stage.provide()
    assert stage.left == []


def test_a_package_for_all_architectures(stage: Stage) -> None:
    package = stage.mirror.add("other", version="1", control=control_text("other", "1", "all"))
    stage.lock = replace(stage.lock, packages=(*stage.lock.packages, package))
    assert damaged_files(stage.provide(), thorough=True, archives=stage.lock.archives) == []


def test_more_than_the_lock_file_states(stage: Stage) -> None:
    """Its estimate of the installed bytes may be half of what there is."""
    for number, installed in enumerate((500, 499)):
        made = stage.mirror.add(f"large{number}", Member(f"./usr/{number}", bytes(1000)))
        lock = replace(stage.lock, packages=(*stage.lock.packages, replace(made, installed=installed)))
        stage.lock = lock
        if number:
            with pytest.raises(BadArchive, match="more than the 998 bytes that its lock file allows"):
                stage.provide()
        else:
            stage.provide()


def test_a_prefix_of_other_archives(stage: Stage) -> None:
    """Its manifest agrees with its files, but its archives are not those of the lock file."""
    made = stage.provide()
    archives = stage.lock.archives
    assert damaged_files(made, thorough=False, archives=archives) == []
    for others in (archives[1:], (*archives, archives[0]), (replace(archives[0], hashes=("0" * 64,)), *archives[1:])):
        assert damaged_files(made, thorough=False, archives=others) == [".matrix/archives.json"]
    for text in ("", "{}", "null", "[" * 100_000):
        (made / ".matrix/archives.json").write_text(text)
        assert damaged_files(made, thorough=False, archives=archives) == [".matrix/archives.json"]


def test_programs(stage: Stage) -> None:
    """By scripts and by command line, also after moving the prefix."""
    moved = stage.root / "a $place; with 'names'"
    shutil.move(stage.provide(), moved)
    assert damaged_files(moved, thorough=False) == []
    assert read_prefix(moved).argv(str(moved), "say") == [str(moved / "opt/t/bin/say")]
    done = subprocess.run([wrapper(moved, "say"), "a b"], capture_output=True, text=True, check=True)
    assert done.stdout == "said say a b\n"
    (stage.root / "link").symlink_to(wrapper(moved, "say"))
    assert subprocess.run([stage.root / "link"], capture_output=True, check=True).stdout == b"said say \n"
    with pytest.raises(CatalogError, match=r"has no program 'sya'; did you mean 'say'\?"):
        read_prefix(moved).argv(str(moved), "sya")
    assert (
        str(stage.root) not in (moved / ".matrix/prefix.json").read_text() + (moved / ".matrix/files.json").read_text()
    )


def test_damage(stage: Stage) -> None:
    """Found by quick and thorough checks; repaired by removing and installing."""
    made = stage.provide()
    (made / "usr/lib/1.so").write_bytes(b"\1" * 4999 + b"\2")
    (made / "usr/lib/l2").unlink()
    (made / "opt/t/bin/say").chmod(0o644)
    (made / ".matrix/bin/say").unlink()
    bad = [".matrix/bin/say", "opt/t/bin/say", "usr/lib/1.so", "usr/lib/l2"]
    assert damaged_files(made, thorough=False) == bad
    (made / "usr/lib/3.so").write_bytes(b"added")
    assert damaged_files(made, thorough=True) == [*bad[:3], "usr/lib/3.so", "usr/lib/l2"]
    assert stage.provide(mirrors=nobody) == made
    assert damaged_files(made, thorough=True), "what is there is not looked at"
    remove(made)
    assert stage.provide(mirrors=nobody) == made
    assert damaged_files(made, thorough=True) == []
    assert stage.left == [stage.lock.folder]


def test_damage_that_hides(stage: Stage) -> None:
    """Same size, same time: as a disk does it."""
    made = stage.provide()
    file = made / "usr/lib/1.so"
    status = file.stat()
    file.write_bytes(b"\1" * 4999 + b"\2")
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert damaged_files(made, thorough=False) == []
    assert damaged_files(made, thorough=True) == ["usr/lib/1.so"]


def test_a_copy_is_not_damaged(stage: Stage) -> None:
    """Its times are other ones: then contents count."""
    made = stage.provide()
    copy = shutil.copytree(made, stage.root / "copy", symlinks=True, copy_function=shutil.copy)
    assert damaged_files(copy, thorough=False) == []


SHAPES = [
    "", "{", "[]", "1", '{"format": 0}', '{"format": 1}', '{"format": 1, "files": {}}', '{"format": 1, "links": {}}',
    '{"format": 1, "files": [], "links": {}}', '{"format": 1, "files": {}, "links": []}',
    '{"format": 1, "files": {}, "links": {"a": 1}}',
    '{"format": 1, "files": {"a": [1, "x", 1]}, "links": {}}', '{"format": 1, "files": {"a": [1, "x", 1, 1.5]}, "links": {}}',
    '{"format": 1, "files": {"a": {"size": 1}}, "links": {}}', '{"format": 1, "files": {"a": 4}, "links": {}}',
    '{"format": 1, "files": {"a": ["1", "x", 1, 1]}, "links": {}}', "[" * 100_000,
    '{"format": 1, "files": {"a": [%s, "x", 1, 1]}, "links": {}}' % ("1" * 5000),
]  # fmt: skip


@pytest.mark.parametrize("text", SHAPES, ids=lambda text: text[:60])
def test_a_damaged_description(stage: Stage, text: str) -> None:
    """Also one that is JSON of another shape: the prefix is damaged, then, and is made again."""
    made = stage.provide()
    (made / ".matrix/files.json").write_text(text)
    assert damaged_files(made, thorough=False) == damaged_files(made, thorough=True) == [".matrix/files.json"]
    (made / ".matrix/prefix.json").write_text(text)
    with pytest.raises(InfrastructureError, match=r"is damaged: \.matrix/prefix\.json cannot be read"):
        read_prefix(made)
    remove(made)
    assert damaged_files(stage.provide(), thorough=True) == []


def test_a_description_of_what_cannot_be(stage: Stage) -> None:
    """Of the right shape, with names that no file can have."""
    made = stage.provide()
    value = json.loads((made / ".matrix/files.json").read_text())
    value["files"]["a\0b"] = [1, "x", 1, 1]
    value["links"]["\udc80\ud800"] = "\ud800"
    (made / ".matrix/files.json").write_text(json.dumps(value))
    assert damaged_files(made, thorough=False) == damaged_files(made, thorough=True) == ["a\0b", "\udc80\ud800"]


def test_bytecode_is_no_damage(stage: Stage) -> None:
    """Bytecode is not damage; any other added file is."""
    made = stage.provide()
    for name in ("opt/t/bin/__pycache__/say.pyc", "opt/new"):
        (made / name).parent.mkdir(exist_ok=True)
        (made / name).write_bytes(b"x")
    assert damaged_files(made, thorough=True) == ["opt/new"]
    assert damaged_files(made, thorough=False) == []


def test_a_damaged_artifact(stage: Stage) -> None:
    """Is set aside and fetched again."""
    stage.artifacts.folder.mkdir(parents=True)
    package = stage.lock.packages[0]
    stage.artifacts.path(package.sha256).write_bytes(b"x" * package.size)
    assert damaged_files(stage.provide(), thorough=True) == []
    assert stage.artifacts.path(package.sha256).with_suffix(".damaged").read_bytes() == b"x" * package.size


def test_what_others_have(stage: Stage) -> None:
    """Is taken from there, and kept."""
    plain = stage.root / "cache"
    plain.mkdir()
    for package in stage.lock.packages:
        shutil.copy(stage.mirror.root / package.path, plain)
    stage.artifacts = Artifacts(stage.artifacts.folder, [plain])
    stage.provide(mirrors=nobody)
    assert len(stage.artifacts.entries()) == len(stage.lock.packages)


def test_gone(stage: Stage) -> None:
    """Name the package and the remedy, leave nothing, and try other mirrors."""
    package = stage.lock.packages[1]
    away = stage.root / "away"
    shutil.copytree(stage.mirror.root, away)
    (stage.mirror.root / package.path).unlink()
    with pytest.raises(NotFoundError, match=r"^tool 2\.0: lib1 1:2\.0\+b1~x-3: ") as caught:
        stage.provide()
    assert f"{stage.mirror.base} does not have {package.path}; sid may have a newer version" in str(caught.value)
    assert all(word in str(caught.value) for word in ("MATRIX_DEB_MIRROR", "--from DIR", "toolchain lock tool"))
    assert stage.left == []
    stage.bases = ("file://me:secret@localhost/none", stage.mirror.base)
    with pytest.raises(NotFoundError) as caught:
        stage.provide()
    assert f": file://localhost/none and {stage.mirror.base} does not have {package.path};" in str(caught.value)
    stage.bases = (stage.mirror.base, away.as_uri() + "/")
    assert damaged_files(stage.provide(), thorough=True) == []


def test_the_address(stage: Stage) -> None:
    """Over http, with the characters of Debian's versions."""
    with serve(stage.mirror.root) as server:
        stage.bases = (server.address,)
        stage.provide()
        assert {path for path, _ in server.requests} == {f"/{package.path}" for package in stage.lock.packages}


def test_the_way(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Is apt's: its proxy is asked, here one that has the files itself."""
    monkeypatch.delenv("no_proxy")
    for package in stage.lock.packages:
        place = stage.root / "proxy" / "http:" / "mirror.invalid" / package.path
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(stage.mirror.root / package.path, place)
    with serve(stage.root / "proxy") as proxy:
        monkeypatch.setattr(debian, "machine_routes", lambda: Routes(proxies={"http": proxy.address}))
        stage.bases = ("http://mirror.invalid",)
        assert damaged_files(stage.provide(), thorough=True) == []
        assert len(proxy.requests) == len(stage.lock.packages)


def test_another_file_than_locked(stage: Stage) -> None:
    package = stage.lock.packages[1]
    file = stage.mirror.root / package.path
    file.write_bytes(file.read_bytes()[:-1] + b"?")
    with pytest.raises(InfrastructureError, match=r"^tool 2\.0: lib1 .*another hash than in the lock file"):
        stage.provide()
    assert stage.left == []


def test_hostile(stage: Stage) -> None:
    """One package is enough to refuse all of it."""
    evil = stage.mirror.add("evil", link("./usr/lib/out", "../../../../evil"))
    with pytest.raises(BadArchive, match=r"^tool 2\.0: evil .*: usr/lib/out: link that leads out"):
        stage.provide(dataclasses.replace(stage.lock, packages=(*stage.lock.packages, evil)))
    assert stage.left == []


def test_no_programs(stage: Stage) -> None:
    with pytest.raises(InfrastructureError, match="no programs in usr/bin; correct the component's 'programs'"):
        stage.provide(dataclasses.replace(stage.lock, programs=("usr/bin",)))


def test_no_c_library(stage: Stage) -> None:
    """A program that needs a loader, and no package that has one."""
    more = stage.mirror.add("more", Member("./opt/t/bin/more", elf(), mode=0o755))
    with pytest.raises(InfrastructureError, match="libc6"):
        stage.provide(dataclasses.replace(stage.lock, packages=(*stage.lock.packages, more)))


def test_cancelled(stage: Stage) -> None:
    """At once, though nothing comes."""
    cancelled = threading.Event()
    with serve(stage.mirror.root) as server:
        server.hold = threading.Event()
        stage.bases = (server.address,)

        def cancel() -> None:
            server.reached.wait(120)
            cancelled.set()

        threading.Thread(target=cancel).start()
        started = time.monotonic()
        with pytest.raises(Cancelled):
            stage.provide(cancelled=cancelled)
        assert time.monotonic() - started < 60
    assert stage.left == []


RUN = """
import sys
from pathlib import Path
from mlir_matrix.environments.fetch.artifacts import Artifacts
from mlir_matrix.environments.install.debian import provide
from mlir_matrix.environments.lockfiles.debian import parse_debian_lock
home, lock, base, limit = sys.argv[1:]
if int(limit):
    import resource
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(limit), resource.RLIM_INFINITY))
try:
    artifacts, packages = Artifacts(Path(home, "artifacts")), Path(home, "packages")
    provide(parse_debian_lock(lock, "lock"), artifacts=artifacts, packages=packages, mirrors=lambda: (base,))
except Exception as error:
    print(type(error).__name__, error)
"""


def start(stage: Stage, base: str, *, limit: int = 0) -> AbstractContextManager[subprocess.Popen[str]]:
    import datetime

    text = stage.lock.text(made=datetime.date(2026, 1, 1))
    return start_python("-c", RUN, str(stage.root / "home"), text, base, str(limit), no_proxy="*")


def test_two_processes(stage: Stage) -> None:
    """Fetch each package once, and make the prefix once."""
    with serve(stage.mirror.root) as server:
        with start(stage, server.address) as one, start(stage, server.address) as other:
            assert [process.communicate(timeout=120)[0] for process in (one, other)] == ["", ""]
        assert len(server.requests) == len(stage.lock.packages)
    assert stage.left == [stage.lock.folder]


def test_killed(stage: Stage) -> None:
    """What it leaves is swept by the next one."""
    with serve(stage.mirror.root) as server:
        server.hold = threading.Event()
        with start(stage, server.address):
            assert server.reached.wait(120)
    assert [name for name in stage.left if name.startswith(".new-")]
    assert damaged_files(stage.provide(), thorough=True) == []
    assert stage.left == [stage.lock.folder]


def test_full_disk(stage: Stage) -> None:
    """While unpacking: packages are small and what is in them is not."""
    big = stage.mirror.add("big", Member("./usr/big", bytes(5_000_000)))
    stage.lock = dataclasses.replace(stage.lock, packages=(*stage.lock.packages, big))
    with start(stage, stage.mirror.base, limit=1_000_000) as process:
        out = process.communicate(timeout=120)[0]
    assert out.startswith("DiskFullError tool 2.0: big 1:2.0+b1~x-3 cannot be unpacked: the disk is full"), out
    assert stage.left == []
    assert damaged_files(stage.provide(), thorough=True) == []


def test_names_for_a_shell(stage: Stage) -> None:
    """A stranger's program is called as it likes; our script for it runs that, and nothing else."""
    name = "$(touch evil)'`x`\n\"; #"
    odd = stage.mirror.add("odd", folder("./opt/t/bin"), Member(f"./opt/t/bin/{name}", SCRIPT, mode=0o755))
    made = stage.provide(dataclasses.replace(stage.lock, packages=(*stage.lock.packages, odd)))
    done = subprocess.run([wrapper(made, name)], cwd=stage.root, capture_output=True, text=True, check=True)
    assert done.stdout == f"said {name} \n"
    assert not (stage.root / "evil").exists()


LOADED = Prefix(
    loader="lib64/ld.so",
    libraries=("usr/lib/t/lib", "lib/x y"),
    programs={"opt": PrefixProgram(path="usr/lib/t/bin/opt", loaded=True)},
)


def test_by_the_loader(tmp_path: Path) -> None:
    """Compare the command line with the script."""
    root = str(tmp_path / "p q")
    argv = LOADED.argv(root, "opt")
    libraries = f"{root}/usr/lib/t/lib:{root}/lib/x y"
    assert argv == [
        f"{root}/lib64/ld.so", "--inhibit-cache", "--argv0", "opt", "--library-path", libraries, f"{root}/usr/lib/t/bin/opt",
    ]  # fmt: skip
    for path, text in (
        (".matrix/bin/opt", script(LOADED, "opt")),
        ("lib64/ld.so", '#!/bin/sh\nprintf "%s\\n" "$0" "$@"\n'),
    ):
        (Path(root) / path).parent.mkdir(parents=True, exist_ok=True)
        (Path(root) / path).write_text(text)
        (Path(root) / path).chmod(0o755)
    done = subprocess.run([wrapper(Path(root), "opt"), "-a", "b c"], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [*argv, "-a", "b c"]
    with pytest.raises(InfrastructureError, match="MATRIX_HOME to a folder without them"):
        LOADED.argv("/a:b", "opt")


def test_the_manifest_is_data(stage: Stage) -> None:
    made = stage.provide()
    files = json.loads((made / ".matrix/files.json").read_text())["files"]
    for path, (size, sha256, *_) in files.items():
        data = (made / path).read_bytes()
        assert (len(data), hashlib.sha256(data).hexdigest()) == (size, sha256)
