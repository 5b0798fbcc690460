"""From a locked package to its files: pip says where its wheel is, we fetch it by hash and unpack it.

pip knows the machine's indexes, proxies and certificates; what it cannot do is go on with half a file, and keep what it
fetched by hash, so that a wheel that has vanished from its index can still be had.
"""

from __future__ import annotations

import json
import os
import re
import sys
import tempfile
from pathlib import Path

from mlir_matrix.environments.fetch.download import AccessError, NotFoundError, Wanted, adopt, download, kept
from mlir_matrix.environments.install.wheel_archive import unpack_wheel
from mlir_matrix.environments.install.workshop import Pip, Workshop
from mlir_matrix.environments.interpreter import Interpreter, version_of
from mlir_matrix.environments.lockfiles.wheels import WheelPackage
from mlir_matrix.errors import InfrastructureError
from mlir_matrix.events import PackageProgress
from mlir_matrix.files import beside, locked

#: What pip says of an index that it cannot ask, before it says that there is no such package.
_UNREACHED = re.compile(r"Retrying|ConnectionError|ProxyError|SSLError|timed out")
_BROKEN = "after connection broken by "


def install_wheel(package: WheelPackage, interpreter: Interpreter, workshop: Workshop) -> None:
    """Make the folder of a package where it is not there. Raises InfrastructureError, Cancelled."""
    folder = package.folder_for(interpreter.tag)

    with locked(workshop.packages / ".locks" / folder, workshop.cancelled):
        if not (workshop.packages / folder).is_dir():
            provide_wheel(package, interpreter, workshop.packages / folder, workshop)


def provide_wheel(package: WheelPackage, interpreter: Interpreter, destination: Path, workshop: Workshop) -> None:
    """Fill the folder ``destination``, which is not there yet. Raises InfrastructureError, Cancelled."""
    wheel = _kept(package, workshop) or _fetch(package, interpreter, destination, workshop)
    with beside(destination) as scratch:
        unpack_wheel(wheel, scratch, package.label, workshop.cancelled)
        os.replace(scratch, destination)


def _kept(package: WheelPackage, workshop: Workshop) -> Path | None:
    """The wheel, where one of the builds that will do is here or with others."""
    found = (
        kept(_wanted(package, value), workshop.artifacts, cancelled=workshop.cancelled) for value in package.hashes
    )
    return next((wheel for wheel in found if wheel), None)


def _wanted(package: WheelPackage, value: str, *addresses: str) -> Wanted:
    # Of several builds, any of which will do, the lock has the size of one.
    size = package.size if len(package.hashes) == 1 else None
    file = f"{package.name}-{package.version}-"
    return Wanted(name=package.label, sha256=value, size=size, file=file, addresses=addresses)


def _fetch(package: WheelPackage, interpreter: Interpreter, destination: Path, workshop: Workshop) -> Path:
    address, value = locate(package, interpreter, workshop.pip)
    if value not in package.hashes:
        raise _other(package)

    def tell(received: int, total: int) -> None:
        workshop.listener(PackageProgress(package=package.label, received=received, total=total))

    artifacts, cancelled = workshop.artifacts, workshop.cancelled
    wanted = _wanted(package, value, address)
    try:
        return download(wanted, artifacts, transport=workshop.transport, progress=tell, cancelled=cancelled)
    except AccessError:
        # Where an index wants to know who asks, or is reached by a proxy or a certificate of pip's own, pip has the answer.
        with beside(destination) as folder:
            return adopt(wanted, _by_pip(package, interpreter, folder, workshop.pip), artifacts, cancelled=cancelled)


def locate(package: WheelPackage, interpreter: Interpreter, pip: Pip) -> tuple[str, str]:
    """Where the wheel of a package is, and its SHA-256, as pip finds it. Raises InfrastructureError with pip's reason."""
    with tempfile.TemporaryDirectory(prefix="matrix-pip-") as folder:
        report = Path(folder, "report.json")
        words = ["install", "--dry-run", "--ignore-installed", "--report", str(report), "--target", f"{folder}/unused"]
        code, said = pip.call([*words, *_asked(package, interpreter, Path(folder))])
        if code != 0:
            raise _explain(package, said)
        (item,) = json.loads(report.read_bytes())["install"]
    found = item["download_info"]
    archive = found["archive_info"]
    value = archive.get("hashes", {}).get("sha256") or archive.get("hash", "").removeprefix("sha256=")
    return str(found["url"]), str(value)


def _by_pip(package: WheelPackage, interpreter: Interpreter, folder: Path, pip: Pip) -> Path:
    """The wheel, in a folder, as pip fetches it."""
    code, said = pip.call(["download", "--dest", str(folder), *_asked(package, interpreter, folder)])
    if code != 0:
        raise _explain(package, said)
    (wheel,) = folder.glob("*.whl")
    return wheel


def _asked(package: WheelPackage, interpreter: Interpreter, folder: Path) -> list[str]:
    """What pip is asked for: this one package, for the interpreter that it is for, by its hashes."""
    requirements = folder / "requirements.txt"
    requirements.write_text(package.requirement + "\n", encoding="utf-8")
    words = ["--no-deps", "--require-hashes", "--only-binary=:all:", "--requirement", str(requirements)]
    if Path(interpreter.path) == Path(sys.executable).resolve():
        return words
    # pip's own list of what the interpreter takes is that of the one that it runs on.
    platforms = [f"manylinux_2_{minor}_x86_64" for minor in range(17, 40)] + ["manylinux2014_x86_64", "linux_x86_64"]
    return [
        *words, "--python-version", version_of(interpreter.tag), "--implementation", "cp",
        *(word for abi in (interpreter.tag, "abi3", "none") for word in ("--abi", abi)),
        *(word for platform in platforms for word in ("--platform", platform)),
    ]  # fmt: skip


def _other(package: WheelPackage) -> InfrastructureError:
    return InfrastructureError(f"{package.label} was offered with another hash than the lock has; it was not installed")


def _explain(package: WheelPackage, said: str) -> InfrastructureError:
    lines = [line for line in said.splitlines() if line.strip() and "is ignored: it is neither" not in line]
    if "DO NOT MATCH THE HASHES" in said:
        return _other(package)
    if "No space left" in said:
        return InfrastructureError(f"{package.label} cannot be installed: the disk is full")
    if unreached := [line for line in lines if _UNREACHED.search(line)]:
        return InfrastructureError(
            f"{package.label} cannot be fetched: there is no network, or a package index cannot be reached; "
            f"pip says: {unreached[-1].rpartition(_BROKEN)[2]:.300}. Configure pip for an index or a mirror that can be "
            "reached (see: pip config list), or bring the wheels along with: matrix toolchain fetch --from DIR"
        )
    if "No matching distribution" in said or "Could not find a version" in said:
        advice = f"{package.label} is not on the package indexes that pip is configured with (see: pip config list)"
        if "+cpu" in package.version:
            advice += "; add the index of PyTorch's CPU builds there, or set PIP_EXTRA_INDEX_URL"
        return NotFoundError(advice)
    return InfrastructureError(f"{package.label} cannot be installed; pip says: {lines[-1] if lines else 'nothing'}")
