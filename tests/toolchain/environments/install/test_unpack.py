"""Unpack Debian packages, also hostile ones: nothing is written outside of the prefix."""

from __future__ import annotations

import hashlib
import os
import shutil
import tarfile
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import hypothesis
import pytest
from hypothesis import strategies

from mlir_matrix.base.files import Cancelled
from mlir_matrix.environments.install import debian_archive
from mlir_matrix.environments.install.debian_archive import BadArchive
from mlir_matrix.environments.install.unpack import Unpacked, inside, leads_out, make_links, relative, unpack
from support.debs import Member, ar, deb, folder, hard, link, packed, tar, write
from support.machine import program


@pytest.fixture
def prefix(tmp_path: Path) -> Path:
    """Deep down, so that what leaves it lands where it is seen."""
    made = tmp_path / "outside" / "store" / "prefix"
    made.mkdir(parents=True)
    return made


def put(prefix: Path, *members: Member, name: str = "x.deb", **options: str) -> Unpacked:
    """Unpack one package, links included."""
    source = write(prefix.parents[2] / name, *members, **options)
    unpacked = unpack(source, prefix, archive="x 1.0")
    make_links(prefix, unpacked.links)
    return unpacked


def outside(prefix: Path) -> list[Path]:
    return [
        path for path in (prefix.parents[1]).rglob("*") if prefix not in (path, *path.parents) and path != prefix.parent
    ]


@pytest.mark.parametrize("suffix", [".xz", ".gz", ".bz2", "", ".zst"])
def test_what_is_in_it(prefix: Path, suffix: str) -> None:
    """All compressions; leading './', long names, setuid bits, and the record of each file."""
    data = os.urandom(3_000_000)
    name = "usr/share/" + "n" * 90 + "/" + "m" * 90
    unpacked = put(
        prefix, folder("./"), folder("./usr/"), Member("./usr/big", data), Member(name, b"long"),
        Member("./usr/run", b"#!", mode=0o6755), hard("./usr/too", "./usr/run"),
        link("./usr/l", "/" + name), link("./lib64/ld", "../usr/big"), Member("./usr/empty"), suffix=suffix,
    )  # fmt: skip
    assert (prefix / "usr/big").read_bytes() == data
    assert (prefix / name).read_bytes() == b"long"
    assert (prefix / "usr/l").read_bytes() == b"long"
    assert not os.readlink(prefix / "usr/l").startswith("/")
    assert (prefix / "lib64/ld").read_bytes() == data
    assert (prefix / "usr/run").stat().st_mode & 0o7777 == 0o755
    assert (prefix / "usr/too").samefile(prefix / "usr/run")
    records = {file.path: file for file in unpacked.files}
    assert set(records) == {"usr/big", name, "usr/run", "usr/too", "usr/empty"}
    for path, record in records.items():
        status = (prefix / path).stat()
        assert record.sha256 == hashlib.sha256((prefix / path).read_bytes()).hexdigest()
        assert (record.size, record.mode, record.mtime_ns) == (
            status.st_size,
            status.st_mode & 0o777,
            status.st_mtime_ns,
        )


HOSTILE = {
    "absolute": [Member("/etc/evil", b"x")],
    "up": [Member("./usr/../../evil", b"x")],
    "up at once": [Member("../evil", b"x")],
    "up as a folder": [folder("./../evil")],
    "a link out": [link("./usr/l", "../../evil")],
    "a link out, by a link": [folder("./a/b/"), link("./a/b/top", "/"), link("./l", "a/b/top/../evil")],
    "a link to nothing": [link("./l", "")],
    "links in a circle": [link("./a", "b"), link("./b", "a")],
    "written through a link": [link("./usr/l", "/etc"), folder("./etc"), Member("./usr/l/evil", b"x")],
    "written through a link out": [link("./l", "../../"), Member("./l/evil", b"x")],
    "a link through a link": [link("./a", "b"), folder("./b"), link("./a/c", "d")],
    "a file, then a link": [Member("./a", b"x"), link("./a", "b")],
    "a link twice": [link("./a", "b"), link("./a", "c")],
    "a file twice": [Member("./a", b"x"), Member("./a", b"y")],
    "a file as a folder": [Member("./a", b"x"), Member("./a/b", b"y")],
    "a hard link out": [hard("./a", "../../../secret")],
    "an absolute hard link": [hard("./a", "/etc/passwd")],
    "a hard link to what is not there": [hard("./a", "b")],
    "a hard link by a link": [link("./b", "/"), hard("./a", "b")],
    "a device": [Member("./dev/sda", type=tarfile.BLKTYPE)],
    "another device": [Member("./dev/null", type=tarfile.CHRTYPE)],
    "a pipe": [Member("./p", type=tarfile.FIFOTYPE)],
    "an extended header": [Member("./p", b"10 path=/x\n", type=tarfile.XHDTYPE)],
    "a path in an extended header": [Member("./p", b"9 path=x\n", type=tarfile.XHDTYPE), Member("./q", b"x")],
    "a path in a global header": [Member("./p", b"9 path=x\n", type=tarfile.XGLTYPE), Member("./q", b"x")],
    "a sparse file": [Member("./s", type=tarfile.GNUTYPE_SPARSE)],
    "a large extended header": [Member("./p", bytes(100_000), type=tarfile.XHDTYPE), Member("./q", b"x")],
    "a long name": [Member("./p", b"n" * 100_000, type=tarfile.GNUTYPE_LONGNAME), Member("./q", b"x")],
    "a thousand names": [Member("./p", b"n", type=tarfile.GNUTYPE_LONGNAME)] * 1000 + [Member("./q", b"x")],
    "what is ours": [Member("./.matrix/prefix.json", b"{}")],
    "the prefix itself": [link("./", "/")],
    "a folder with content": [Member("./d", b"x", type=tarfile.SYMTYPE, target="y")],
}  # fmt: skip


@pytest.mark.parametrize("members", HOSTILE.values(), ids=HOSTILE)
def test_hostile(prefix: Path, members: list[Member]) -> None:
    """The message names archive and member, and nothing is written outside."""
    (prefix.parents[1] / "secret").write_text("secret")
    before = outside(prefix)
    with pytest.raises(BadArchive, match=r"^x 1\.0: .+; the package was not installed$") as caught:
        put(prefix, *members)
    assert caught.value.exit_code == 3
    assert outside(prefix) == before
    assert (prefix.parents[1] / "secret").stat().st_nlink == 1


def test_no_more_than_allowed(prefix: Path, tmp_path: Path) -> None:
    """Nothing is written of the file that exceeds the limit."""
    source = write(tmp_path / "x.deb", Member("./a", bytes(1000)), Member("./b", bytes(100_000)))
    with pytest.raises(
        BadArchive, match=r"^x 1\.0: \./b: its files have more than the 100999 bytes that its lock file allows;"
    ):
        unpack(source, prefix, archive="x 1.0", most=100_999)
    assert [path.name for path in prefix.iterdir()] == ["a"]
    shutil.rmtree(prefix)
    prefix.mkdir()
    assert len(unpack(source, prefix, archive="x 1.0", most=101_000).files) == 2


def test_two_packages(prefix: Path, tmp_path: Path) -> None:
    """They share folders and links, but no file."""
    first = unpack(write(tmp_path / "a", Member("./usr/lib/a", b"a"), link("./l", "usr")), prefix, archive="a")
    second = unpack(write(tmp_path / "b", Member("./usr/lib/b", b"b"), link("./l", "usr")), prefix, archive="b")
    assert make_links(prefix, (*first.links, *second.links)) == {"l": "usr"}
    with pytest.raises(BadArchive, match=r"c: \./usr/lib/a: duplicate path"):
        unpack(write(tmp_path / "c", Member("./usr/lib/a", b"a")), prefix, archive="c")


def test_many_at_once(prefix: Path, tmp_path: Path) -> None:
    """Into the same folders."""
    sources = [
        write(tmp_path / str(n), *(Member(f"./a/b/c{i}/d/f{n}", b"%d" % n) for i in range(20))) for n in range(16)
    ]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda path: unpack(path, prefix, archive=path.name), sources))
    assert len(list(prefix.rglob("f*"))) == 320


@pytest.mark.parametrize("suffix", [".xz", ".gz", ".bz2", ".zst"])
@pytest.mark.parametrize("change", ["cut", "flip"])
def test_damaged(prefix: Path, tmp_path: Path, suffix: str, change: str) -> None:
    data = bytearray(deb(Member("./a", os.urandom(100_000)), suffix=suffix))
    start = data.index(b"data.tar") + 60
    body = bytearray(data[start:])
    if change == "flip":
        body[len(body) // 2] ^= 1
    else:
        body = body[: len(body) // 2]
    path = tmp_path / "x"
    path.write_bytes(ar(("debian-binary", b"2.0\n"), (f"data.tar{suffix}", bytes(body))))
    with pytest.raises(BadArchive, match=r"x: (\./a|data\.tar): (is damaged|is truncated)"):
        unpack(path, prefix, archive="x")


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"", "not a Debian package"), (b"<html>404</html>" * 9, "not a Debian package"),
        (ar(("debian-binary", b"2.0\n")), "has no member data.tar"),
        (deb(Member("./a", b"x" * 99))[:-40], "is damaged or truncated at byte"),
        (b"!<arch>\nx", "is damaged or truncated at byte 8"), (ar(("data.tar.lzma", b"")), "unsupported compression"),
        (ar(("data.tar", b"x" * 512)), "invalid tar record"), (ar(("data.tar", b"")), "is truncated"),
        (packed(tar([Member("a", b"x")])[:700], ""), "is truncated"),
        (packed(tar([Member("a", b"x")])[:1024], ""), "x: a: is truncated"),
        (packed(tar([Member("a", b"x")])[:1024] + b"x" * 1024, ""), "x: a: invalid tar record after it"),
    ],
)  # fmt: skip
def test_no_package(prefix: Path, tmp_path: Path, data: bytes, problem: str) -> None:
    path = tmp_path / "x"
    path.write_bytes(data)
    with pytest.raises(BadArchive, match=problem):
        unpack(path, prefix, archive="x")


def test_no_longer_wanted(prefix: Path, tmp_path: Path) -> None:
    cancelled = threading.Event()
    cancelled.set()
    with pytest.raises(Cancelled):
        unpack(write(tmp_path / "x", Member("./a", b"x")), prefix, archive="x", cancelled=cancelled)


@hypothesis.given(strategies.text(alphabet="./ab\0", max_size=12))
def test_inside(name: str) -> None:
    """A name is refused or stays inside, never changed into another file."""
    path = inside(name)
    if path is None:
        assert name.startswith("/") or ".." in name.split("/") or "\0" in name
    else:
        assert os.path.normpath("/p/" + path) == os.path.normpath("/p/" + name)
        assert os.path.normpath("/p/" + path).startswith("/p")


targets = strategies.lists(strategies.sampled_from(["..", ".", "a", "b", "c"]), min_size=1, max_size=5).map("/".join)
paths = strategies.lists(strategies.sampled_from(["a", "b", "c"]), min_size=1, max_size=3).map("/".join)


@hypothesis.given(strategies.dictionaries(paths, strategies.tuples(targets, strategies.booleans()), max_size=5))
def test_links_never_lead_out(tmp_path_factory: pytest.TempPathFactory, given: dict[str, tuple[str, bool]]) -> None:
    """What we accept, the kernel agrees about."""
    links = {path: relative(path, "/" + target if absolute else target) for path, (target, absolute) in given.items()}
    links = {path: target for path, target in links.items() if not any(path.startswith(other + "/") for other in links)}
    if any(leads_out(path, links) for path in links):
        return
    root = tmp_path_factory.mktemp("links")
    for path, target in links.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        os.symlink(target, root / path)
    for path in links:
        assert os.path.realpath(root / path).startswith(str(root))


def test_full_disk(prefix: Path, tmp_path: Path) -> None:
    """Called by its name; here a limit on the size of files."""
    import resource
    import subprocess
    import sys

    write(tmp_path / "x", Member("./a", b"x" * 3_000_000))
    code = (
        "import resource, sys; from pathlib import Path; from mlir_matrix.environments.install.unpack import unpack\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, resource.RLIM_INFINITY))\n"
        "try: unpack(Path(sys.argv[1]), Path(sys.argv[2]), archive='x 1.0')\n"
        "except Exception as error: print(type(error).__name__, error)"
    )
    done = subprocess.run([sys.executable, "-c", code, tmp_path / "x", prefix], capture_output=True, text=True, check=True, env={
        **os.environ, "PYTHONPATH": str(Path(debian_archive.__file__).parents[3]),
    })  # fmt: skip
    assert done.stdout.startswith("DiskFullError x 1.0 cannot be unpacked: the disk is full"), done
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] != 1_000_000


def blocky(data: bytes, tmp_path: Path) -> bytes:
    """Compressed in blocks, as dpkg does it."""
    import subprocess

    return subprocess.run(
        [program("xz"), "-c", "--block-size=65536"], input=data, capture_output=True, check=True
    ).stdout


def decompress(path: Path, data: bytes) -> bytes:
    """The content of an archive around compressed data, read as an archive is."""
    path.write_bytes(ar(("debian-binary", b"2.0\n"), ("data.tar.xz", data)))
    with debian_archive.open_deb(path, archive="x") as reader:
        return b"".join(bytes(piece) for piece in reader._chunks)


def test_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whichever decompresses them, damage is found in each of them."""
    data = os.urandom(300_000) + b"0" * 300_000
    packed = blocky(data, tmp_path)
    path = tmp_path / "x"
    for large in (0, 1 << 30):
        monkeypatch.setattr(debian_archive, "_LARGE", large)
        assert decompress(path, packed) == data
        for place in range(20, len(packed) - 200, len(packed) // 40):
            bad = bytearray(packed)
            bad[place] ^= 0x10
            with pytest.raises(debian_archive._DAMAGED):
                decompress(path, bytes(bad))
        for length in (0, 5, 20, 30, len(packed) // 2, len(packed) - 1):
            with pytest.raises(debian_archive._DAMAGED):
                decompress(path, packed[:length])


def test_an_index_that_lies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a wrong index, the content is right or there is an error."""
    data = b"0123456789" * 30_000
    packed = blocky(data, tmp_path)
    for large in (0, 1 << 30):
        monkeypatch.setattr(debian_archive, "_LARGE", large)
        for place in range(len(packed) - 60, len(packed)):
            bad = bytearray(packed)
            bad[place] ^= 1
            try:
                assert decompress(tmp_path / "x", bytes(bad)) == data
            except debian_archive._DAMAGED:
                continue


def test_no_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, prefix: Path) -> None:
    """Without xz on PATH it takes longer."""
    monkeypatch.setattr(debian_archive, "_LARGE", 0)
    monkeypatch.setenv("PATH", str(tmp_path))
    put(prefix, Member("./a", b"x" * 1000))
    assert (prefix / "a").read_bytes() == b"x" * 1000
