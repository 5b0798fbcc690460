"""Install a wheel: pip finds its URL, and this module downloads it by hash and unpacks it.

pip knows the machine's indexes, proxies and certificates. This module resumes downloads and keeps archives by hash, so that a
wheel can be installed again even if its index no longer has it.
"""

from __future__ import annotations

import errno
import json
import os
import re
import sys
from pathlib import Path

from mlir_matrix.base.errors import InfrastructureError
from mlir_matrix.base.events import PackageProgress
from mlir_matrix.base.files import beside, locked, unwritable
from mlir_matrix.environments.fetch.download import AccessError, NotFoundError, WantedFile, adopt, download, kept
from mlir_matrix.environments.fetch.pip import address_of, conflict_in, options_for
from mlir_matrix.environments.fetch.workshop import Pip, Workshop
from mlir_matrix.environments.install.wheel_archive import unpack_wheel
from mlir_matrix.environments.installed.integrity import write_archives
from mlir_matrix.environments.interpreter import Interpreter
from mlir_matrix.environments.lockfiles.wheels import WheelPackage

#: Words in pip's output if an index cannot be reached. pip then also reports that the package does not exist.
_UNREACHED = re.compile(r"Retrying|ConnectionError|ProxyError|SSLError|timed out")
_BROKEN = "after connection broken by "


def install_wheel(package: WheelPackage, interpreter: Interpreter, workshop: Workshop) -> None:
    """Install a wheel if it is missing. Raise InfrastructureError, Cancelled."""
    folder = package.folder_for(interpreter.tag)
    try:
        with locked(workshop.packages / ".locks" / folder, workshop.cancelled):
            if not (workshop.packages / folder).is_dir():
                provide_wheel(package, interpreter, workshop.packages / folder, workshop)
    except OSError as error:
        raise unwritable(f"{package.label} cannot be installed", error) from None


def provide_wheel(package: WheelPackage, interpreter: Interpreter, destination: Path, workshop: Workshop) -> None:
    """Create the folder ``destination``. Raise InfrastructureError, Cancelled."""
    found = (
        kept(_wanted(package, value), workshop.artifacts, cancelled=workshop.cancelled) for value in package.hashes
    )
    wheel = next((wheel for wheel in found if wheel), None) or _fetch(package, interpreter, destination, workshop)
    with beside(destination) as scratch:
        unpack_wheel(wheel, scratch, package, workshop.cancelled, workshop.listener)
        # The store names archives by their hashes.
        write_archives(scratch, [wheel.name])
        os.replace(scratch, destination)


def _wanted(package: WheelPackage, value: str, *addresses: str) -> WantedFile:
    # With several hashes, the size in the lock file is that of the first build.
    size = package.size if len(package.hashes) == 1 else None
    file = f"{package.name}-{package.version}-"
    return WantedFile(name=package.label, sha256=value, size=size, file=file, addresses=addresses)


def _fetch(package: WheelPackage, interpreter: Interpreter, destination: Path, workshop: Workshop) -> Path:
    with beside(destination) as folder:
        address, value = locate(package, interpreter, workshop.pip, folder)
    if value not in package.hashes:
        raise _other_hash(package)

    def tell(received: int, total: int) -> None:
        workshop.listener(PackageProgress(package=package.label, received=received, total=total))

    artifacts, cancelled = workshop.artifacts, workshop.cancelled
    wanted = _wanted(package, value, address)
    try:
        return download(wanted, artifacts, transport=workshop.transport, progress=tell, cancelled=cancelled)
    except AccessError:
        # pip may have a password, a proxy or a certificate for the index.
        with beside(destination) as folder:
            _call(workshop.pip, ["download", "--dest", str(folder)], package, interpreter, folder)
            (wheel,) = folder.glob("*.whl")
            return adopt(wanted, wheel, artifacts, cancelled=cancelled)


def locate(package: WheelPackage, interpreter: Interpreter, pip: Pip, folder: Path) -> tuple[str, str]:
    """Return URL and SHA-256 of a wheel, as pip finds it. ``folder``: for temporary files.

    Raise InfrastructureError with pip's reason.
    """
    report = folder / "report.json"
    command = [
        "install",
        "--dry-run",
        "--ignore-installed",
        "--report",
        str(report),
        "--target",
        f"{folder}/unused",
    ]
    _call(pip, command, package, interpreter, folder)
    (item,) = json.loads(report.read_bytes())["install"]
    return address_of(item)


def _call(pip: Pip, command: list[str], package: WheelPackage, interpreter: Interpreter, folder: Path) -> None:
    """Run a command of pip for this one package, by its hashes. Raise InfrastructureError."""
    requirements = folder / "requirements.txt"
    requirements.write_text(package.requirement + "\n", encoding="utf-8")
    words = ["--no-deps", "--require-hashes", "--only-binary=:all:", "--requirement", str(requirements)]
    if Path(interpreter.path) != Path(sys.executable).resolve():
        words += options_for(interpreter.tag)
    code, output = pip.call([*command, *words], folder)
    if code != 0:
        raise _explained(package, output, folder)


def _other_hash(package: WheelPackage) -> InfrastructureError:
    lock = f"the lock file {package.position}".rstrip()
    return InfrastructureError(f"{package.label} has another hash than in {lock}; not installed")


def _explained(package: WheelPackage, output: str, folder: Path) -> InfrastructureError:
    """Return the error for a failed call of pip."""
    if "DO NOT MATCH THE HASHES" in output:
        return _other_hash(package)
    if "No space left" in output:
        return unwritable(f"{package.label} cannot be installed", OSError(errno.ENOSPC, "", str(folder.parent)))
    if conflict := conflict_in(output):
        return InfrastructureError(
            f"{package.label} cannot be installed; pip reports a conflict: {conflict}. Take the constraint out of pip's "
            "configuration (see: pip config list, PIP_CONSTRAINT)"
        )
    lines = [line for line in output.splitlines() if line.strip() and "is ignored: it is neither" not in line]
    if unreached := [line for line in lines if _UNREACHED.search(line)]:
        return InfrastructureError(
            f"{package.label} cannot be downloaded: no network, or a package index cannot be reached; "
            f"pip reports: {unreached[-1].rpartition(_BROKEN)[2]:.300}. Configure pip for an index or a mirror that can be "
            "reached (see: pip config list), or name a folder with the wheels: matrix toolchain fetch --from DIR"
        )
    if "No matching distribution" in output or "Could not find a version" in output:
        advice = f"{package.label} is not on the package indexes that pip is configured with (see: pip config list)"
        if "+cpu" in package.version:
            advice += "; add the index of PyTorch's CPU builds there, or set PIP_EXTRA_INDEX_URL"
        return NotFoundError(advice)
    return InfrastructureError(f"{package.label} cannot be installed; pip reports: {lines[-1] if lines else 'nothing'}")
