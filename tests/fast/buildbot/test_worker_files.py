"""What a master reads of an archive that a worker sends, also of a hostile one."""

from __future__ import annotations

import gzip
import io
import tarfile

import pytest

from mlir_matrix.buildbot.cells import framed, pictures
from mlir_matrix.buildbot.worker_files import members


def archive(*files: tuple[str, bytes | str]) -> bytes:
    """A compressed archive; a text is the target of a link."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as tar:
        for name, content in files:
            member = tarfile.TarInfo(name)
            if isinstance(content, str):
                member.type, member.linkname = tarfile.SYMTYPE, content
                tar.addfile(member)
            else:
                member.size = len(content)
                tar.addfile(member, io.BytesIO(content))
    return stream.getvalue()


def test_files_by_their_ending() -> None:
    found = archive(
        ("./error-y.svg", b"<svg/>"), ("log.txt", b"x"), ("deep/error-z.svg", b"x"), ("link.svg", "/etc/passwd")
    )
    assert members(found, ".svg", 100) == {"error-y.svg": b"<svg/>"}


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"no archive",
        archive(("a.svg", b"x" * 10_000))[:60],
        gzip.compress(b"\xff" * 2_000),
        archive(("a.svg", b"\0" * 5_000_000)),
    ],
    ids=["empty", "text", "cut", "no tar", "large"],
)
def test_what_is_damaged_or_large_is_left_out(data: bytes) -> None:
    assert members(data, ".svg", 1_000) == {}


def test_a_page_executes_nothing() -> None:
    page = framed(pictures({"<script>.svg": b"<svg><script>alert(1)</script></svg>"}))
    assert page.startswith('<iframe sandbox="" ')
    assert "<script" not in page
    assert page.count('"') == 6, "nothing ends the attribute"
