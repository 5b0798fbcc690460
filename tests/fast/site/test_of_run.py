"""The pages of one run, for ``matrix run --html``."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from mlir_matrix.base.errors import InfrastructureError, UsageError
from mlir_matrix.results.results import Run
from mlir_matrix.site.of_run import publisher
from support.recordings import TIMES, result

TOOLS = Path(__file__).resolve().parents[3] / "tools"
ABOUT: Any = {
    "version": "1", "command": "matrix run", "host": "h", "started": TIMES[0], "ended": TIMES[1], "catalogs": [],
}  # fmt: skip


def test_a_run_replaces_the_pages_of_the_one_before(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "new" / "site"
    for name in "ab":
        publish = publisher(folder, ["smoke"], cache_dir=None)
        publish(Run(results=[result(name, "crashed", "at f")]), ABOUT)
    assert capsys.readouterr().err == f"pages: {folder / 'index.html'}\n" * 2
    page = (folder / "index.html").read_text()
    start = page.index("data/manifest-")
    manifest = (folder / page[start : page.index(".js", start) + 3]).read_text()
    assert "evidence/jax/p/t/b" in manifest
    assert "evidence/jax/p/t/a" not in manifest


def test_a_run_without_tests_has_pages(tmp_path: Path) -> None:
    publisher(tmp_path / "site", ["smoke"], cache_dir=None)(Run(), ABOUT)
    assert (tmp_path / "site" / "index.html").exists()


def test_a_folder_of_something_else_is_refused_before_the_run(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="is not empty, and no site"):
        publisher(tmp_path, [], cache_dir=None)
    with pytest.raises(UsageError, match="is a file"):
        publisher(tmp_path / "file", [], cache_dir=None)
    with pytest.raises(InfrastructureError, match="cannot be made"):
        publisher(tmp_path / "file" / "below", [], cache_dir=None)


def test_a_clock_that_was_set_back_hides_no_results(tmp_path: Path) -> None:
    publish = publisher(tmp_path, [], cache_dir=None)
    with pytest.raises(InfrastructureError, match="is in the future"):
        publish(
            Run(results=[result("a")]),
            {**ABOUT, "started": "9998-01-01T00:00:00.000Z", "ended": "9998-01-01T00:00:01.000Z"},
        )


def test_a_run_without_pages_imports_nothing_of_them() -> None:
    code = "import sys; import mlir_matrix.run.commands, mlir_matrix.run.run_tests; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": str(TOOLS)}, capture_output=True, text=True, check=True
    )  # fmt: skip
    found = done.stdout.split()
    assert "mlir_matrix.run.run_tests" in found
    assert not [name for name in found if name.startswith(("mlir_matrix.site", "sqlalchemy", "alembic", "jinja2"))]


def test_without_jinja2(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("site", "pages"):
        monkeypatch.delitem(sys.modules, f"mlir_matrix.site.{module}", raising=False)
    monkeypatch.setitem(sys.modules, "jinja2", None)
    with pytest.raises(UsageError, match=r"^matrix run --html needs jinja2: pip install 'mlir-matrix\[site\]'$"):
        publisher(tmp_path / "site", ["smoke"], cache_dir=None)
