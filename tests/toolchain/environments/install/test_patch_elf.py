"""Patch prefixes for their path: what is patched, what is not, and that they are damaged anywhere else."""

from __future__ import annotations

import dataclasses
import shutil
import subprocess
from pathlib import Path

import pytest

from mlir_matrix.actions.runtime.integrity import lost
from mlir_matrix.base.errors import InfrastructureError
from mlir_matrix.environments.fetch.artifacts import Artifacts
from mlir_matrix.environments.install.debian import provide
from mlir_matrix.environments.installed.integrity import damaged_files
from mlir_matrix.environments.installed.prefix import read_prefix, wrapper
from mlir_matrix.environments.lockfiles.debian import DebianRelease
from support.debs import SCRIPT, Member, Mirror, elf, folder, link

#: Stands in for patchelf: writes down what it is told, and changes the file.
FAKE = """\
#!/bin/sh
for file; do :; done
if [ "$1" = --print-rpath ]; then echo '/usr/lib/more:$ORIGIN/../own:/opt/none:relative'; exit; fi
echo "$*" >> "$file"
"""
LOADER = "lib64/ld-linux-x86-64.so.2"


class Stage:
    """A mirror with a lock that is in place, and what patches."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.mirror = Mirror(root / "debian")
        self.members = [
            folder("./usr/bin"), folder("./usr/lib/x86_64-linux-gnu"), folder("./usr/lib/more"), folder("./lib64"),
            Member("./usr/bin/run", elf(), mode=0o755), Member("./usr/bin/say", SCRIPT, mode=0o755),
            Member("./usr/bin/still", elf(dynamic=False, interpreted=False), mode=0o755),
            Member("./usr/lib/x86_64-linux-gnu/plain.so", elf(interpreted=False)),
            Member("./usr/lib/x86_64-linux-gnu/own.so", elf(interpreted=False, runpath=True)),
            link("./usr/bin/too", "run"), Member(f"./{LOADER}", elf(interpreted=False, runpath=True), mode=0o755),
        ]  # fmt: skip
        self.patcher = root / "patcher"
        (self.patcher / "bin").mkdir(parents=True)
        self.patch(FAKE)

    def patch(self, text: str) -> None:
        (self.patcher / "bin/patchelf").write_text(text)
        (self.patcher / "bin/patchelf").chmod(0o755)

    def provide(self, packages: str = "packages") -> Path:
        package = self.mirror.add("tool", *self.members)
        lock = DebianRelease(component="tool", release="2.0", packages=(package,), programs=("usr/bin",), in_place=True)
        return provide(
            lock, artifacts=Artifacts(self.root / "artifacts"), packages=self.root / packages, patcher=self.patcher,
            mirrors=lambda: [self.mirror.base],
        )  # fmt: skip


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path)


def test_what_is_patched(stage: Stage) -> None:
    """Programs get the loader and the libraries of the place, libraries only what they would else hide; all of it is listed."""
    made = stage.provide()
    libraries = f"{made}/usr/lib/more:$ORIGIN/../own:{made}/usr/lib/x86_64-linux-gnu"
    said = f"--force-rpath --set-rpath {libraries}"
    program = (made / "usr/bin/run").read_bytes().removeprefix(elf()).decode()
    assert program.startswith(f"{said} --set-interpreter {made}/{LOADER} ")
    library = (made / "usr/lib/x86_64-linux-gnu/own.so").read_bytes()
    assert library.removeprefix(elf(interpreted=False, runpath=True)).decode().startswith(f"{said} /")
    assert (made / "usr/lib/x86_64-linux-gnu/plain.so").read_bytes() == elf(interpreted=False)
    assert (made / LOADER).read_bytes() == elf(interpreted=False, runpath=True)
    assert damaged_files(made, thorough=True) == damaged_files(made, thorough=False) == []
    assert lost(str(made)) == ""


def test_programs_are_run_as_they_are(stage: Stage) -> None:
    made = stage.provide()
    assert read_prefix(made).argv(str(made), "run") == [str(made / "usr/bin/run")]
    assert read_prefix(made).argv(str(made), "too") == [str(made / "usr/bin/too")]
    done = subprocess.run([wrapper(made, "say"), "it"], capture_output=True, text=True, check=True)
    assert done.stdout == "said say it\n"


def test_it_cannot_be_moved(stage: Stage) -> None:
    """But reached by another name."""
    made = stage.provide()
    (stage.root / "other").symlink_to(made)
    assert damaged_files(stage.root / "other", thorough=True) == []
    copy = shutil.copytree(made, stage.root / "copy", symlinks=True)
    assert damaged_files(copy, thorough=False) == [f"all files: the prefix only works at {made}"]
    assert lost(str(copy)) == "it was made for another place, which its programs name"


def test_a_place_that_loaders_cannot_name(stage: Stage) -> None:
    with pytest.raises(InfrastructureError, match=r"set MATRIX_HOME to a folder without them"):
        stage.provide("a:b")


@pytest.mark.parametrize(
    ("text", "said"),
    [("#!/bin/sh\necho no such section >&2; exit 1\n", "no such section"), ("#!/none\n", "No such file")],
)
def test_what_cannot_be_patched(stage: Stage, text: str, said: str) -> None:
    stage.patch(text)
    with pytest.raises(InfrastructureError, match=rf"(run|own\.so) cannot be patched.*{said}"):
        stage.provide()
    assert [path.name for path in (stage.root / "packages").iterdir()] == [".locks"]


def test_without_a_loader(stage: Stage) -> None:
    del stage.members[-1]
    with pytest.raises(InfrastructureError, match=r"add the C library, libc6"):
        stage.provide()


def test_its_digest_is_its_own() -> None:
    lock = DebianRelease(component="tool", release="2.0", packages=())
    patched = dataclasses.replace(lock, in_place=True)
    assert len({lock.made, patched.made, dataclasses.replace(patched, finish="bazel").made}) == 3
