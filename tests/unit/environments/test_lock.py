"""Locks: pip's own format, read strictly, because names become folders and a stranger may have written them."""

from __future__ import annotations

from pathlib import Path

import hypothesis
import pytest
from hypothesis import strategies

from mlir_matrix.environments.lock import Package, lock_file, read_lock, write_lock
from mlir_matrix.errors import CatalogError

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
    Package,
    name=strategies.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,20}", fullmatch=True),
    version=strategies.from_regex(r"[0-9][A-Za-z0-9.+!]{0,10}", fullmatch=True),
    hashes=strategies.lists(strategies.from_regex(r"[0-9a-f]{64}", fullmatch=True), min_size=1, max_size=3).map(tuple),
)


@hypothesis.given(strategies.lists(packages, max_size=5))
def test_what_is_written_is_read(tmp_path_factory: pytest.TempPathFactory, given: list[Package]) -> None:
    path = locks(tmp_path_factory.mktemp("lock")) / "x.txt"
    write_lock(path, given, environment="x")
    assert read_lock(path) == tuple(sorted(given))
    assert path.read_text().startswith("# Made by: matrix toolchain lock x\n")


def test_comments_and_gaps(tmp_path: Path) -> None:
    path = lock(
        tmp_path, f"# first\n\na==1 --hash=sha256:{A}  # why\n   \nb==2+cpu --hash=sha256:{A} --hash=sha256:{B}\n"
    )
    assert read_lock(path) == (
        Package(name="a", version="1", hashes=(A,)), Package(name="b", version="2+cpu", hashes=(A, B)),
    )  # fmt: skip


@pytest.mark.parametrize(
    "line",
    [
        "numpy", "numpy==1", "numpy>=1 --hash=sha256:" + A, "numpy==1 --hash=sha256:" + A[:-1], "numpy==1 --hash=md5:" + A[:32],
        "../numpy==1 --hash=sha256:" + A, "a/b==1 --hash=sha256:" + A, ".a==1 --hash=sha256:" + A, "-r other.txt",
        "numpy==../1 --hash=sha256:" + A, "numpy==1;x --hash=sha256:" + A, "numpy @ file:///etc --hash=sha256:" + A,
        "--index-url https://host.invalid", "-e .", "numpy==1 \\", "numpy==1 --hash=sha256:" + A.upper(),
        "numpy==1 --hash=sha256:" + A + " --global-option=x", "nümpy==1 --hash=sha256:" + A,
    ],
)  # fmt: skip
def test_anything_else_is_refused(tmp_path: Path, line: str) -> None:
    path = lock(tmp_path, f"# one\na==1 --hash=sha256:{A}\n{line}\n")
    with pytest.raises(CatalogError, match=rf"^{path}:3:1: expected «name==version --hash=sha256:…», got '"):
        read_lock(path)


def test_bytes_that_are_no_text(tmp_path: Path) -> None:
    with pytest.raises(CatalogError, match=r":1:1: is not UTF-8"):
        read_lock(lock(tmp_path, b"\xff"))
    with pytest.raises(CatalogError, match="control character"):
        read_lock(lock(tmp_path, b"a\x1b"))
    with pytest.raises(CatalogError, match="larger than 1 MiB"):
        read_lock(lock(tmp_path, b"#" * (2 << 20)))


def test_a_link_that_leaves_the_catalog(tmp_path: Path) -> None:
    """Its content, say of /etc/passwd, would be quoted in the message."""
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


def test_names() -> None:
    package = Package(name="torch", version="2.13.0+cpu", hashes=(A, B))
    assert package.requirement == f"torch==2.13.0+cpu --hash=sha256:{A} --hash=sha256:{B}"
    assert package.folder("cp311") == "torch-2.13.0+cpu-cp311-aaaaaaaaaaaa"
    assert lock_file(Path("/l"), "mlir", "cp312") == Path("/l/mlir-cp312-linux-x86_64.txt")
