"""Bundles: what was packed comes out again, and equal files give equal bytes."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from mlir_matrix.actions.runtime.prepared import pack, unpack


@given(st.dictionaries(st.from_regex(r"[a-z0-9_./-]{1,20}", fullmatch=True), st.binary(max_size=200), max_size=6))
def test_bundle_round_trip(tmp_path_factory, files: dict[str, bytes]) -> None:  # type: ignore[no-untyped-def]
    folder: Path = tmp_path_factory.mktemp("bundle")
    paths = {}
    for number, (name, data) in enumerate(files.items()):
        paths[name] = folder / f"in{number}"
        paths[name].write_bytes(data)
    pack(str(folder / "one"), paths)
    pack(str(folder / "two"), dict(reversed(paths.items())))
    assert (folder / "one").read_bytes() == (folder / "two").read_bytes()
    found = unpack(str(folder / "one"), folder / "out")
    assert {name: Path(path).read_bytes() for name, path in found.items()} == files
    assert all(Path(path).parent == folder / "out" for path in found.values()), "no name leads out"
