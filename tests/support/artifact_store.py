"""A store of packages and a sealed environment of them, small, but checked and measured like any."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from pathlib import Path

from mlir_matrix.base.paths import Home
from mlir_matrix.environments.installed.integrity import UnpackedFile, write_archives, write_manifest
from mlir_matrix.environments.interpreter import Interpreter
from mlir_matrix.environments.lockfiles.debian import DebianPackage, DebianRelease
from mlir_matrix.environments.lockfiles.wheels import WheelPackage
from mlir_matrix.environments.resolve import ResolvedEnvironment


def row(path: str, content: bytes) -> str:
    value = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
    return f"{path},sha256={value},{len(content)}\n"


def wheel(folder: Path, name: str, files: dict[str, bytes], *, by_pip: bool = False) -> None:
    """An installed wheel; ``by_pip``: as pip leaves one, with more files and its list in another order."""
    files = dict(files)
    if by_pip:
        files[f"{name}.dist-info/INSTALLER"] = b"pip\n"
    for path, content in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content)
    rows = [row(path, content) for path, content in files.items()] + [f"{name}.dist-info/RECORD,,\n"]
    (folder / f"{name}.dist-info").mkdir(exist_ok=True)
    (folder / f"{name}.dist-info" / "RECORD").write_text("".join(reversed(rows) if by_pip else rows))


def prefix(folder: Path, archives: Sequence[str] = ()) -> None:
    """A prefix: a program, a link, and the list of both."""
    (folder / "usr/bin").mkdir(parents=True)
    (folder / ".matrix").mkdir()
    (folder / ".matrix/prefix.json").write_text("{}")
    (folder / "usr/bin/python3.11").write_bytes(b"\x7fELF")
    (folder / "usr/bin/python3.11").chmod(0o755)
    (folder / "usr/bin/python3").symlink_to("python3.11")
    write_archives(folder, archives)
    write_manifest(folder, [UnpackedFile.of(folder, folder / "usr/bin/python3.11")], {"usr/bin/python3": "python3.11"})


def made_of(*names: str) -> ResolvedEnvironment:
    """An environment of these wheels, with its interpreter from a lock."""
    package = DebianPackage(
        name="python3.11", version="3.11.2-6", size=4, installed=4, sha256="1" * 64, suite="s", path="pool/p.deb"
    )
    lock = DebianRelease(component="cpython", release="3.11.2", packages=(package,), programs=("usr/bin",))
    interpreter = Interpreter(path="", version="3.11.2", libc="glibc 2.36", prefix=lock)
    packages = tuple(
        WheelPackage(name=name, version="1.0", hashes=(hashlib.sha256(name.encode()).hexdigest(),)) for name in names
    )
    return ResolvedEnvironment(name="-".join(names) or "python", interpreter=interpreter, packages=packages)


def fill(home: Home, environment: ResolvedEnvironment, *, by_pip: bool = False) -> None:
    """Install it."""
    assert environment.interpreter.prefix is not None
    folder = home.packages / environment.interpreter.prefix.folder
    if not folder.exists():
        prefix(folder, ["1" * 64])
    for package in environment.packages:
        files = {f"{package.name}/__init__.py": b"x = 1\n", f"{package.name}/data.bin": package.name.encode() * 99}
        wheel(home.packages / package.folder_for("cp311"), f"{package.name}-1.0", files, by_pip=by_pip)
        write_archives(home.packages / package.folder_for("cp311"), package.hashes)
