"""``matrix toolchain verify``: check every byte of installed packages."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from mlir_matrix.base.text import counted, megabytes
from mlir_matrix.cli import options
from mlir_matrix.cli.output import note, show, warn
from mlir_matrix.cli.toolchain.fetch import names_argument
from mlir_matrix.cli.verbs import verb
from mlir_matrix.environments.session import Session
from mlir_matrix.toolchains.fetch import Damage, first, verify


@verb("verify", "matrix toolchain verify", "matrix toolchain verify llvm@19")
@names_argument
@options.output_format("table", "json")
@options.session(*options.releases)
def verify_command(names: tuple[str, ...], form: str, current: Session) -> int:
    """Check every byte of installed packages and downloaded archives.

    Without arguments, verify everything. Damaged packages and archives are removed; ``matrix toolchain fetch`` makes them again.

    Exit code: 0 nothing is damaged; 3 something is damaged.
    """
    found = verify(current, names, note)
    show(form, _document(found), _lines(found))
    if not (found.folders or found.archives):
        return 0
    command = options.same_catalogs(["matrix", "toolchain", "fetch", *found.names], current)
    warn(f"damaged packages and archives were removed{f'; make them again with: {command}' if found.names else ''}")
    return 3


def _document(found: Damage) -> dict[str, Any]:
    damaged, artifacts = len(found.folders), len(found.archives)
    return {
        "schema": "mlir-matrix/verified-toolchain/v1",
        "summary": {"packages": found.packages, "damaged_packages": damaged, "damaged_archives": artifacts},
        "units": found.packages,
        "bytes_of_artifacts": found.size,
        "damaged": [
            {"unit": label, "folder": folder, "files": files} for folder, (label, files) in found.folders.items()
        ],
        "artifacts": list(found.archives),
        "names": {value: label for value, label in found.archives.items() if label},
        "fetch": found.names,
    }


def _lines(found: Damage) -> Iterator[str]:
    for label, files in found.folders.values():
        yield f"{label} is damaged: {first(files)}"
    for value, label in found.archives.items():
        yield f"the archive of {label} is damaged: {value}" if label else f"an unused archive is damaged: {value}"
    read = f"{counted(found.packages, 'package')} and {megabytes(found.size)} of archives read"
    yield f"{read}; {len(found.folders) + len(found.archives)} damaged"
