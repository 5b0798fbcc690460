"""Docker from Debian's packages in a prefix: a daemon that runs a container, and leaves nothing."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest

from mlir_matrix.environments.selection import prefix_of
from mlir_matrix.environments.session import Session
from support.daemon import dockerd, unsupported


@pytest.mark.skipif(bool(unsupported()), reason=unsupported())
def test_a_container(current: Session, tmp_path: Path) -> None:
    with dockerd(current, tmp_path / "docker") as daemon:
        _, prefix = prefix_of(current, "docker")
        # An image of one program, which is linked statically.
        image = io.BytesIO()
        with tarfile.open(fileobj=image, mode="w") as archive:
            archive.add(prefix / "usr/bin/tini-static", "tini")
        (tmp_path / "image.tar").write_bytes(image.getvalue())
        daemon.docker("import", str(tmp_path / "image.tar"), "one")
        done = daemon.docker("run", "--rm", "--network", "none", "--read-only", "one", "/tini", "--version")
        assert done.startswith("tini version")
        assert daemon.docker("version", "--format", "{{.Server.Version}}").startswith("26.")
    assert not Path(f"/proc/{daemon.pid}").exists()
    assert str(tmp_path) not in Path("/proc/self/mountinfo").read_text()
