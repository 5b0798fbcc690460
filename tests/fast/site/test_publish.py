"""A site is whole at any time: publishers are killed, disks are full, folders are not ours."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from typing import Any

import pytest

from mlir_matrix.base.errors import DiskFullError, InfrastructureError, UsageError
from mlir_matrix.base.files import is_held
from mlir_matrix.site import publish
from mlir_matrix.site.publish import MARKER, publishing


@pytest.fixture(autouse=True)
def fast(monkeypatch: pytest.MonkeyPatch) -> None:
    """Do not wait for the disk, which only loses what is written if the machine fails."""
    monkeypatch.setattr(os, "fsync", lambda _: None)


def build(folder: Path, number: int, *, documents: int = 3) -> None:
    """Publish a site whose page and documents have a number."""
    with publishing(folder) as publication:
        for at in range(documents):
            publication.put(f"document {at}", {"number": number, "at": at})
        publication.put("same", {"text": "</script>\u2028\0\ud800"})
        style = publication.put_static("site.css", f"/* {number} */".encode())
        manifest = publication.put_manifest({"files": publication.files, "static": style})
        for name in ("index.html", "matrix.html"):
            publication.page(name, manifest)
        publication.finish("1", "database", [f"run {number}"])


def read(file: Path) -> Any:
    return json.loads(file.read_text("ascii").removeprefix("matrix.put(").removesuffix(");\n").join("[]"))[1]


def shown(folder: Path) -> set[int]:
    """Return the numbers of the builds that the pages show; each is whole."""
    found = set()
    for page in ("index.html", "matrix.html"):
        manifest = read(folder / (folder / page).read_text())
        assert (folder / manifest["static"]).is_file()
        documents = {name: read(folder / path) for name, path in manifest["files"].items()}
        assert documents.pop("same") == {"text": "</script>\u2028\0\ud800"}
        numbers = {document["number"] for document in documents.values()}
        assert len(numbers) == 1
        found |= numbers
    return found


def files(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def test_each_build_replaces_the_one_before(tmp_path: Path) -> None:
    for number in range(4):
        build(tmp_path / "site", number)
        assert shown(tmp_path / "site") == {number}
    # What a reader of the build before has open stays: 3 documents, a manifest, a style sheet.
    assert len(files(tmp_path / "site")) == 2 * 5 + 1 + 2 + 1
    assert not is_held(tmp_path / "site")
    text = next((tmp_path / "site/data").glob("*.js")).read_bytes()
    assert text.isascii()


def killed_before(change: int, site: Path, number: int) -> bool:
    """Build a site in a process that dies without any cleaning before one of its changes; return whether there are so many."""
    child = os.fork()
    if child:
        _, status = os.waitpid(child, 0)
        assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0
        return os.WIFSIGNALED(status)
    left = [change]

    def dying(made: Any) -> Any:
        def dies(*arguments: Any, **more: Any) -> Any:
            left[0] -= 1
            if left[0] == 0:
                os.kill(os.getpid(), 9)
            return made(*arguments, **more)

        return dies

    code = 1
    try:
        for of, name in ((os, "replace"), (os, "unlink"), (os, "mkdir"), (Path, "write_bytes")):
            setattr(of, name, dying(getattr(of, name)))
        build(site, number)
        code = 0
    finally:
        os._exit(code)


@pytest.mark.parametrize("first", [True, False], ids=["first build", "later build"])
def test_killed_anywhere(tmp_path: Path, *, first: bool) -> None:
    site = tmp_path / "site"
    if not first:
        build(site, 0)
    number = 1
    while killed_before(number, site, number):
        if (site / "index.html").exists() and (site / "matrix.html").exists():
            assert shown(site) <= set(range(number + 1))
        number += 1
    assert number > 10
    assert shown(site) == {number}
    assert not [name for name in files(site) if name.endswith(".new")]


def test_folders_that_are_not_ours(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(UsageError, match="is not empty, and no site of mlir-matrix"), publishing(tmp_path):
        pass
    assert files(tmp_path) == {"mine.txt"}
    with pytest.raises(UsageError, match="is a file; expected a folder"), publishing(tmp_path / "mine.txt"):
        pass
    with pytest.raises(InfrastructureError, match="cannot be made"), publishing(tmp_path / "mine.txt/site"):
        pass
    with (
        pytest.raises(InfrastructureError, match="cannot be made: No such file or directory"),
        publishing(Path("/proc/x")),
    ):
        pass


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"schema": "mlir-matrix/site/v9"}', '{"schema": "mlir-matrix/site/v1"}']
)
def test_markers_of_others_make_a_whole_build(tmp_path: Path, text: str) -> None:
    build(tmp_path / "site", 1)
    (tmp_path / "site" / MARKER).write_text(text)
    with publishing(tmp_path / "site") as publication:
        assert publication.before is None
        assert publication.published("same") is None
        assert not publication.keep("same")
    build(tmp_path / "site", 2)
    assert shown(tmp_path / "site") == {2}


def test_documents_of_the_build_before(tmp_path: Path) -> None:
    build(tmp_path / "site", 1)
    with publishing(tmp_path / "site") as publication:
        assert publication.published("document 1") == {"number": 1, "at": 1}
        assert publication.published("unknown") is None
        picture = publication.put_file("picture/../x", b"<svg/>", ".svg")
        publication.finish("1", "database", [])
    with publishing(tmp_path / "site") as publication:
        assert publication.keep(picture)
        assert publication.keep("picture/../x")
        # Not in the last build any more, so that no build keeps its file.
        assert not publication.keep("document 1")
        assert not publication.keep(MARKER)
        publication.finish("1", "database", [])
    assert (tmp_path / "site" / picture).read_bytes() == b"<svg/>"


def test_a_damaged_document_is_none(tmp_path: Path) -> None:
    build(tmp_path / "site", 1)
    with publishing(tmp_path / "site") as publication:
        assert publication.before is not None
        file = tmp_path / "site" / publication.before["files"]["document 1"]
        for text in ("", 'matrix.put("document 1", {"number": 1,', 'matrix.put("document 2", {});\n', "ü"):
            file.write_text(text)
            assert publication.published("document 1") is None
        file.unlink()
        assert publication.published("document 1") is None
        assert not publication.keep("document 1")


def test_a_full_disk_leaves_the_old_site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    build(tmp_path / "site", 1)
    before = files(tmp_path / "site")
    write = Path.write_bytes

    def is_full(self: Path, data: bytes) -> int:
        write(self, data[:3])
        raise OSError(errno.ENOSPC, "No space left on device", str(self))

    monkeypatch.setattr(publish.Path, "write_bytes", is_full)
    with pytest.raises(DiskFullError, match="the disk is full"):
        build(tmp_path / "site", 2)
    assert shown(tmp_path / "site") == {1}
    assert files(tmp_path / "site") == before


def test_markers_that_name_files_elsewhere(tmp_path: Path) -> None:
    site, secret = tmp_path / "site", tmp_path / "secret.js"
    secret.write_text('matrix.put("x", "secret");\n')
    build(site, 1)
    marker = json.loads((site / MARKER).read_text())
    for path in (
        "../secret.js",
        str(secret),
        "data/../../secret.js",
        "data/a/../../../secret.js",
        ".mlir-matrix-site",
        "data/..",
    ):
        for hostile in ({"files": {"x": path}}, {"written": [path]}, {"files": [path]}, {"runs": [1]}):
            (site / MARKER).write_text(json.dumps(marker | hostile))
            with publishing(site) as publication:
                assert publication.before is None
    (site / "data" / "link.js").symlink_to(secret)
    (site / MARKER).write_text(json.dumps(marker | {"files": {"x": "data/link.js"}, "written": ["data/link.js"]}))
    with publishing(site) as publication:
        assert publication.published("x") is None
        assert not publication.keep("x")
    (site / MARKER).write_text("[" * 100_000)
    build(site, 2)
    build(site, 3)
    assert shown(site) == {3}
    assert secret.read_text() == 'matrix.put("x", "secret");\n'


def test_files_of_others_in_a_site_stay(tmp_path: Path) -> None:
    site, elsewhere = tmp_path / "site", tmp_path / "elsewhere"
    build(site, 1)
    (site / "data").rename(elsewhere)
    (site / "data").symlink_to(elsewhere)
    (elsewhere / "mine.txt").write_text("mine")
    (elsewhere / "folder").mkdir()
    for number in (2, 3, 4):
        build(site, number)
    assert shown(site) == {4}
    assert (elsewhere / "mine.txt").read_text() == "mine"
    assert (elsewhere / "folder").is_dir()
