"""IR of one release as another one prints it, by bindings and by programs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

#: As LLVM 23 writes it.
SOURCE = """
func.func @main() -> memref<4xf32> {
  %0 = memref.alloc() {alignment = 64 : i64} : memref<4xf32>
  return %0 : memref<4xf32>
}
"""


@pytest.fixture
def reprint(environments: Any, tmp_path: Path) -> Any:
    def perform(environment: str, backend: str, ir: str) -> Any:
        outputs = {"generic": "generic.mlir", "custom": "custom.mlir"}
        folder = tmp_path / f"{environment}{len([*tmp_path.iterdir()])}"
        return environments.perform(
            environment, "reprint", folder, params={"backend": backend}, inputs={"ir": ir}, outputs=outputs
        )

    return perform


def test_two_releases_write_the_same_ir_otherwise(reprint: Any) -> None:
    """The newer one reads the generic form alone; what it prints is equal to what it writes itself."""
    older = reprint("mlir@llvm=23", "programs", SOURCE)
    handed = reprint("mlir@llvm=24.0.0+deb.20261025", "programs", older.text("generic"))
    assert "{alignment = 64 : i64}" in older.text("custom")
    assert "{alignment = 64 : i64}" not in handed.text("custom")
    own = reprint("mlir@llvm=24.0.0+deb.20261025", "programs", handed.text("custom"))
    assert [own.text(form) for form in ("custom", "generic")] == [handed.text(form) for form in ("custom", "generic")]
    assert reprint("mlir@llvm=24.0.0+deb.20261025", "programs", SOURCE).outcome["outcome"] == "lower-failed"


def test_bindings(reprint: Any) -> None:
    done = reprint("mlir", "bindings", SOURCE)
    assert '"memref.alloc"' in done.text("generic")
    assert "= memref.alloc()" in done.text("custom")


@pytest.mark.parametrize(("environment", "backend"), [("mlir", "bindings"), ("mlir@llvm=17", "programs")])
def test_what_the_release_cannot_read(reprint: Any, environment: str, backend: str) -> None:
    done = reprint(environment, backend, 'func.func @main() { "no.such"() : () -> () return }')
    assert done.outcome["outcome"] == "lower-failed"
    assert "does not parse" in done.outcome["reason"]
