"""What actions by Bazel have of a unit: few files, compiled, the same bytes whenever it is made."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from mlir_matrix.bazel import prepare as module

LIBRARY = f"usr/lib/python{sys.version_info.major}.{sys.version_info.minor}"
ARCHIVE = f"usr/lib/python{sys.version_info.major}{sys.version_info.minor}.zip"


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def written(folder: Path, *names: str) -> Path:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("value = 1\n")
    return folder


def prepare(part: str, folder: Path, called: str = "") -> None:
    """As Bazel's repositories run it: in an interpreter of its own, which writes bytecode beside the sources."""
    command = [sys.executable, "-I", "-S", "-B", module.__file__, part, called or folder.name]
    subprocess.run(command, cwd=folder.parent, check=True)


@pytest.fixture
def site(tmp_path: Path) -> Path:
    return written(
        tmp_path / "site", "pack/__init__.py", "pack/__init__.pyi", "pack/part.py", "pack/tests/__init__.py",
        "pack/tests/test_it.py", "pack/include/pack.h", "pack/lib/include/kept.h", "zig/std/tests/p256.zig", "pack/data.txt",
    )  # fmt: skip


def test_packages_go_without_tests_stubs_and_headers(site: Path) -> None:
    prepare("site", site)
    tag = f"{sys.implementation.cache_tag}.pyc"
    assert set(files(site)) == {
        "pack/__init__.py", "pack/part.py", "pack/data.txt",
        f"pack/__pycache__/__init__.{tag}", f"pack/__pycache__/part.{tag}",
        # A folder's name alone says nothing.
        "pack/lib/include/kept.h", "zig/std/tests/p256.zig",
    }  # fmt: skip


@pytest.mark.parametrize("part", ["site", "prefix"])
def test_what_a_link_leads_to_stays(site: Path, part: str) -> None:
    """A unit is a copy. A link is none: it leads to the installed package."""
    written(site, "usr/share/doc/kept")
    before = files(site)
    (site.parent / "unit").symlink_to(site)
    with pytest.raises(subprocess.CalledProcessError):
        prepare(part, site.parent / "unit")
    assert files(site) == before


@pytest.mark.parametrize(("part", "link"), [("site", "linked"), ("prefix", "usr/lib/linked")])
def test_what_a_link_inside_leads_to_stays(site: Path, part: str, link: str) -> None:
    other = written(site.parent / "other", "include/kept.h", "gconv/kept.so")
    written(site, "usr/lib/own/gconv/gone.so")
    (site / link).symlink_to(other)
    prepare(part, site)
    assert set(files(other)) == {"include/kept.h", "gconv/kept.so"}
    assert (site / "pack/include").exists() == (part == "prefix")
    assert (site / "usr/lib/own/gconv").exists() == (part == "site")


def test_the_interpreters_modules_are_an_archive(tmp_path: Path) -> None:
    unit = written(
        tmp_path / "unit", f"{LIBRARY}/os.py", f"{LIBRARY}/pack/__init__.py", f"{LIBRARY}/pack/part.py",
        f"{LIBRARY}/lib-dynload/native.so", "etc/kept", "usr/share/doc/dropped", "usr/lib/some/gconv/dropped.so",
    )  # fmt: skip
    (unit / LIBRARY / "machine.py").symlink_to("/etc/hosts")
    prepare("interpreter", unit)
    assert set(files(unit)) == {f"{LIBRARY}/os.py", f"{LIBRARY}/lib-dynload/native.so", ARCHIVE, "etc/kept"}
    assert not (unit / LIBRARY / "machine.py").is_symlink()
    with zipfile.ZipFile(unit / ARCHIVE) as archive:
        assert archive.namelist() == [
            "os.py",
            "os.pyc",
            "pack/__init__.py",
            "pack/__init__.pyc",
            "pack/part.py",
            "pack/part.pyc",
        ]
    code = f"import sys; sys.path.insert(0, {str(unit / ARCHIVE)!r}); import pack.part; print(pack.part.value, pack.part.__file__)"
    done = subprocess.run([sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["1", f"{unit / ARCHIVE}/pack/part.pyc"], "the compiled one"


def test_where_a_unit_lies_says_nothing(tmp_path: Path) -> None:
    one = written(tmp_path / "unit", "pack/a.py", "pack/test/bad.py")
    other = written(tmp_path / "tests" / "unit", "pack/a.py", "pack/test/bad.py")
    tag = f"{sys.implementation.cache_tag}.pyc"
    for unit in (one, other):
        prepare("site", unit, called=str(unit))
    assert set(files(one)) == {"pack/a.py", f"pack/__pycache__/a.{tag}", "pack/test/bad.py"}
    assert files(one) == files(other)


@pytest.mark.parametrize("part", ["site", "interpreter"])
def test_the_same_bytes_again(part: str, tmp_path: Path) -> None:
    made = []
    for name in ("one", "two"):
        folder = tmp_path / name / "unit"
        written(folder, "pack/a.py", "pack/b.py", f"{LIBRARY}/os.py", f"{LIBRARY}/json/it.py")
        prepare(part, folder)
        made.append(files(folder))
    assert made[0] == made[1]


def test_prefixes_go_without_documentation(tmp_path: Path) -> None:
    unit = written(
        tmp_path / "unit", "usr/bin/tool", "usr/share/man/man1/tool.1", "usr/share/tool/data", "usr/lib/x.py"
    )
    prepare("prefix", unit)
    assert set(files(unit)) == {"usr/bin/tool", "usr/share/tool/data", "usr/lib/x.py"}
