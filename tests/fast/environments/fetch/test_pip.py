"""Compute the sizes of a wheel from its list of members alone."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from mlir_matrix.base.errors import InfrastructureError
from mlir_matrix.environments.fetch.http import Transport
from mlir_matrix.environments.fetch.pip import wheel_sizes
from support.loopback import Behaviour, serve


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Behaviour]:
    """With a wheel of two megabytes that cannot be compressed."""
    monkeypatch.setenv("no_proxy", "*")
    with zipfile.ZipFile(tmp_path / "w.whl", "w") as archive:
        archive.writestr("a.py", b"a" * 2_000_000)
        archive.writestr("b/", b"")
        archive.writestr("b/c.py", b"c" * 345)
    with serve(tmp_path) as behaviour:
        yield behaviour


@pytest.fixture
def transport() -> Iterator[Transport]:
    made = Transport()
    yield made
    made.close()


def test_wheel_sizes_read_only_the_end(server: Behaviour, transport: Transport, tmp_path: Path) -> None:
    path = tmp_path / "w.whl"
    expected = (path.stat().st_size, 2_000_345)
    assert wheel_sizes(f"{server.address}/w.whl", transport) == expected
    assert wheel_sizes(path.as_uri(), transport) == expected
    starts = [int(given.removeprefix("bytes=").rstrip("-")) for _, given in server.requests if given]
    assert min(starts) > 1_900_000, "nothing is asked for but the end"


def test_without_parts_of_files(server: Behaviour, transport: Transport) -> None:
    """Sizes are not worth the whole wheel."""
    server.ranges = False
    with pytest.raises(InfrastructureError, match="the index does not support ranges"):
        wheel_sizes(f"{server.address}/w.whl", transport)


def test_without_a_length(server: Behaviour, transport: Transport) -> None:
    server.length = False
    with pytest.raises(InfrastructureError, match="does not state the sizes of files"):
        wheel_sizes(f"{server.address}/w.whl", transport)


@pytest.mark.parametrize("trouble", ["absent", "no wheel", "cut", "empty", "nobody"])
def test_wheel_sizes_of_a_bad_server_are_unknown(
    server: Behaviour, transport: Transport, tmp_path: Path, trouble: str
) -> None:
    address = f"{server.address}/w.whl"
    if trouble == "absent":
        address = f"{server.address}/no.whl"
    elif trouble in ("no wheel", "empty"):
        (tmp_path / "w.whl").write_bytes(b"no archive" * (trouble == "no wheel") * 9000)
    elif trouble == "cut":
        server.cut = [0] * 99
    else:
        address = "http://127.0.0.1:1/w.whl"
    with pytest.raises(InfrastructureError, match="the size of a wheel is unknown"):
        wheel_sizes(address, transport)
