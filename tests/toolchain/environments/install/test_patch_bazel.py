"""Patch Debian's Bazel: its list of jars, its rc file and its launcher."""

from __future__ import annotations

import subprocess
import zipfile
from pathlib import Path

import pytest

from mlir_matrix.base.errors import InfrastructureError
from mlir_matrix.environments.install.patch_bazel import finish
from mlir_matrix.environments.installed.prefix import Prefix, PrefixProgram

PREFIX = Prefix(loader="lib64/ld", libraries=(), programs={"bazel": PrefixProgram(path="usr/bin/bazel", loaded=False)})
CLASSPATH = "usr/share/bazel/bazel_classpath_debian_depends.txt"


def jar(root: Path, name: str, manifest: str | None = None) -> None:
    with zipfile.ZipFile(root / "usr/share/java" / name, "w") as archive:
        if manifest is not None:
            archive.writestr("META-INF/MANIFEST.MF", manifest)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name in ("usr/bin", "usr/share/bazel", "usr/share/java", "usr/lib/jvm/java-21/bin"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "usr/lib/jvm/java-21/bin/java").touch()
    (tmp_path / "usr/lib/jvm/default").symlink_to("java-21")
    (tmp_path / "usr/bin/bazel").write_text('#!/bin/sh\nprintf "%s\\n" "$0" "$@"\n')
    (tmp_path / "usr/bin/bazel").chmod(0o755)
    (tmp_path / CLASSPATH).write_text("/usr/share/java/a.jar\n/usr/share/java/optional.jar\n/usr/share/java/b.jar\n")
    jar(
        tmp_path,
        "a.jar",
        "Manifest-Version: 1.0\r\nClass-Path: c.jar /usr/share/ja\r\n va/b.jar gone.jar ../../../../x\r\n",
    )
    jar(tmp_path, "b.jar")
    jar(tmp_path, "c.jar", "Class-Path: a.jar\n")
    return tmp_path


def test_jars(root: Path) -> None:
    """Each once, and none that is not there: packages are optional."""
    _, changed = finish(root, "/there", PREFIX)
    assert changed == {CLASSPATH}
    assert (root / CLASSPATH).read_text().split() == [f"/there/usr/share/java/{name}.jar" for name in "abc"]


def test_the_launcher(root: Path) -> None:
    """Nothing of the machine's is used, of two the newer Java; a person's own words come last."""
    (root / "usr/lib/jvm/java-9/bin").mkdir(parents=True)
    (root / "usr/lib/jvm/java-9/bin/java").touch()
    prefix, _ = finish(root, str(root), PREFIX)
    program = prefix.programs["bazel"]
    assert program == PrefixProgram(path=".matrix/bazel/bazel", loaded=False)
    done = subprocess.run([root / program.path, "build", "a b"], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [
        f"{root}/usr/bin/bazel", "--nosystem_rc", f"--bazelrc={root}/.matrix/bazel/bazelrc",
        f"--install_base={root}/usr/share/bazel", f"--server_javabase={root}/usr/lib/jvm/java-21", "build", "a b",
    ]  # fmt: skip


def test_modules(root: Path) -> None:
    finish(root, "/tmp/there", PREFIX)
    lines = (root / ".matrix/bazel/bazelrc").read_text().splitlines()
    assert "common --lockfile_mode=off" in lines
    assert "common --override_module=platforms=/tmp/there/usr/share/bazel/tools/platforms" in lines
    assert "build --sandbox_add_mount_pair=/tmp/there" in lines
    for name in ("apple_support", "buildozer", "protobuf", "zlib"):
        assert f"common --override_module={name}=/tmp/there/.matrix/bazel/modules/{name}" in lines
        assert {"MODULE.bazel", "BUILD.bazel"} <= {
            path.name for path in (root / ".matrix/bazel/modules" / name).iterdir()
        }


def test_other_packages(root: Path) -> None:
    (root / "usr/lib/jvm/java-21/bin/java").unlink()
    with pytest.raises(InfrastructureError, match=r"no Java in usr/lib/jvm; add a JRE"):
        finish(root, "/there", PREFIX)
    (root / "usr/lib/jvm/java-21/bin/java").touch()
    (root / "usr/share/java/a.jar").write_bytes(b"no jar")
    with pytest.raises(InfrastructureError, match=r"usr/share/java/a.jar cannot be read"):
        finish(root, "/there", PREFIX)
    (root / CLASSPATH).unlink()
    with pytest.raises(InfrastructureError, match=r"which is part of Debian's Bazel"):
        finish(root, "/there", PREFIX)
