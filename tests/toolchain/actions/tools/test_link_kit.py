"""The driver and the C library: the same bytes everywhere, and errors that say what is wrong."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from pathlib import Path

import pytest

from mlir_matrix.actions.contract import Action, ActionFailed
from mlir_matrix.actions.tools import link_kit

TRIPLE = "x86_64-linux-musl"


def build(folder: Path, inputs: Mapping[str, str], *outputs: str, triple: str = TRIPLE) -> None:
    folder.mkdir()
    action = Action(params={"triple": triple}, inputs=inputs, outputs={name: f"{name}.o" for name in outputs})
    with contextlib.chdir(folder):
        link_kit.run(action)


def test_driver_is_the_same_bytes_in_another_folder(
    tmp_path: Path, driver_sources: Mapping[str, str], kit: Mapping[str, Path]
) -> None:
    build(tmp_path / "elsewhere-and-longer", driver_sources, "driver")
    made = (tmp_path / "elsewhere-and-longer" / "driver.o").read_bytes()
    assert made == kit["driver"].read_bytes()
    assert len(made) > 10_000


def test_library_is_the_same_bytes_in_another_folder(
    tmp_path: Path, driver_sources: Mapping[str, str], library: Path
) -> None:
    build(tmp_path / "elsewhere-and-longer", driver_sources, "library", triple="x86_64-linux-gnu.2.17")
    made = (tmp_path / "elsewhere-and-longer" / "library.o").read_bytes()
    assert made == library.read_bytes()
    for trace in (str(Path(link_kit.zig()).parent), str(library.parent), "site-packages", "kit-"):
        assert trace.encode() not in made


def test_outputs_hold_no_path_of_the_machine(kit: Mapping[str, Path], cache: Path) -> None:
    for path in kit.values():
        data = path.read_bytes()
        for trace in (str(Path(link_kit.zig()).parent), str(cache), str(path.parent), "site-packages", "kit-"):
            assert trace.encode() not in data, (path.name, trace)


def test_nothing_but_the_outputs_is_left(tmp_path: Path, driver_sources: Mapping[str, str]) -> None:
    build(tmp_path / "here", driver_sources, "driver")
    assert [path.name for path in (tmp_path / "here").iterdir()] == ["driver.o"]


def test_sources_that_do_not_compile_are_named(tmp_path: Path) -> None:
    source = tmp_path / "wrong.c"
    source.write_text("int f(void) { return nothing; }\n", encoding="utf-8")
    with pytest.raises(ActionFailed, match=r"wrong\.c of the driver does not compile") as caught:
        build(tmp_path / "here", {"wrong.c": str(source)}, "driver")
    assert "nothing" in caught.value.diagnostics
    assert str(tmp_path) not in caught.value.diagnostics


def test_driver_without_sources(tmp_path: Path) -> None:
    with pytest.raises(ActionFailed, match="the driver has no sources"):
        build(tmp_path / "here", {}, "driver")


def test_a_target_that_zig_does_not_know(tmp_path: Path, driver_sources: Mapping[str, str]) -> None:
    action = Action(params={"triple": "pdp11-linux-musl"}, inputs={}, outputs={"runtime": "runtime.o"})
    with contextlib.chdir(tmp_path), pytest.raises(ActionFailed, match="pdp11-linux-musl") as caught:
        link_kit.run(action)
    assert "pdp11" in caught.value.diagnostics


def test_zig_finds_no_program_of_the_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And sees none of the person's variables."""
    monkeypatch.setenv("CC", "/nowhere/cc")
    found = link_kit.zig_environment(tmp_path)
    assert found["PATH"] == ""
    assert found.keys() == {"ZIG_GLOBAL_CACHE_DIR", "ZIG_LOCAL_CACHE_DIR", "TMPDIR", "HOME", "PATH", "LC_ALL"}
    assert {value for name, value in found.items() if name not in ("PATH", "LC_ALL")} == {
        str(tmp_path), str(tmp_path / "cache"),
    }  # fmt: skip


def test_libraries_are_those_of_the_last_link() -> None:
    text = (
        "ld.lld -r -o cache/crt1.o cache/raw/crt1.o\nwarning: something.o\n"
        "ld.lld -static -o empty cache/1/crt1.o cache/2/empty.o --as-needed cache/3/libc.a cache/4/librt.a\n"
    )
    assert link_kit._libraries(text) == ["cache/1/crt1.o", "cache/3/libc.a", "cache/4/librt.a"]
    assert link_kit._libraries("nothing was linked\n") == []
