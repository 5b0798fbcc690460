"""Whether a package is whole: every file that pip listed, with its size."""

from __future__ import annotations

from pathlib import Path

import pytest

from mlir_matrix.actions.runtime.integrity import damage

RECORD = (
    "thing/__init__.py,sha256=abc,4\n"
    '"thing/odd, name.txt",sha256=abc,3\n'
    "../../bin/thing,sha256=abc,100\n"
    "thing/__pycache__/__init__.cpython-311.pyc,,\n"
    "thing-1.dist-info/RECORD,,\n"
)


@pytest.fixture
def site(tmp_path: Path) -> Path:
    (tmp_path / "thing").mkdir()
    (tmp_path / "thing" / "__init__.py").write_text("abcd")
    (tmp_path / "thing" / "odd, name.txt").write_text("abc")
    (tmp_path / "thing-1.dist-info").mkdir()
    (tmp_path / "thing-1.dist-info" / "RECORD").write_text(RECORD)
    return tmp_path


def test_undamaged_package(site: Path) -> None:
    """Scripts lie elsewhere, bytecode need not be there."""
    assert damage(str(site)) == ""


@pytest.mark.parametrize("path", ["thing/__init__.py", "thing/odd, name.txt"])
def test_missing_or_truncated_file_is_damage(site: Path, path: str) -> None:
    (site / path).write_text("a")
    assert damage(str(site)) == f"{path} is missing or has another size"
    (site / path).unlink()
    assert damage(str(site)) == f"{path} is missing or has another size"


def test_package_without_record_is_damaged(site: Path) -> None:
    (site / "thing-1.dist-info" / "RECORD").write_text("a,b\n")
    assert "cannot be read" in damage(str(site))
    (site / "thing-1.dist-info" / "RECORD").unlink()
    assert "cannot be read" in damage(str(site))
    (site / "thing-1.dist-info").rmdir()
    assert damage(str(site)) == "it holds no package"
    assert "cannot be read" in damage(str(site / "nowhere"))
