"""What apt-config prints."""

from __future__ import annotations

from pathlib import Path

import pytest

from mlir_matrix.environments.fetch.apt_sources import (
    settings,
)


def test_what_apt_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing where there is no apt, or it fails."""
    monkeypatch.setenv("PATH", str(tmp_path))
    assert settings() == ""
    for code, said in ((0, 'Acquire::https::CaInfo "x";\n'), (1, "")):
        (tmp_path / "apt-config").write_text(f"#!/bin/sh\n[ -z '{said}' ] || echo '{said.strip()}'\nexit {code}\n")
        (tmp_path / "apt-config").chmod(0o755)
        assert settings() == said
