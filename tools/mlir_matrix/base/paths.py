"""Where state lives: the XDG cache and state folders, or all of it under ``MATRIX_HOME``."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

#: What a wheel has of the repository; it is not to be changed.
INSTALLED = Path(__file__).resolve().parents[1] / "_repository"


def _base(variable: str, default: str) -> Path:
    value = os.environ.get(variable, "")
    # The XDG specification: a relative path is to be ignored.
    return Path(value) if value.startswith("/") else Path.home() / default


@dataclass(frozen=True, kw_only=True)
class Home:
    """The folders that the tool writes to. Nothing is made until something is written."""

    cache: Path
    state: Path
    actions: Path

    @property
    def packages(self) -> Path:
        """Installed packages, one folder each, shared by the environments.

        A link is followed: homes that share packages then share their compiled Python, which goes by their paths.
        """
        return Path(os.path.realpath(self.cache / "packages"))

    @property
    def artifacts(self) -> Path:
        """What was downloaded, by its hash."""
        return self.cache / "artifacts"

    @property
    def layers(self) -> Path:
        """What is known of the layers that images have of packages."""
        return self.cache / "layers"

    @property
    def bytecode(self) -> Path:
        """Compiled Python, kept away from what is digested."""
        return self.cache / "bytecode"

    @property
    def scratch(self) -> Path:
        """Folders of running actions; on the same file system as the action cache, so that results move in at no cost."""
        return self.actions / "scratch"


def find_home(*, cache_dir: Path | None = None) -> Home:
    """The folders of this user. ``cache_dir`` (``--cache-dir``) moves the action cache alone."""
    override = os.environ.get("MATRIX_HOME", "")
    if override:
        root = Path(override).absolute()
        cache, state = root, root / "state"
    else:
        cache = _base("XDG_CACHE_HOME", ".cache") / "mlir-matrix"
        state = _base("XDG_STATE_HOME", ".local/state") / "mlir-matrix"
    return Home(cache=cache, state=state, actions=(cache_dir.absolute() if cache_dir else cache / "actions"))


def repository() -> Path:
    """Return the folder of the catalog, the driver, the schemas and Bazel's files, which has the layout of a checkout.

    It is ``MATRIX_ROOT``, else what the package was installed with, else the checkout that the package is in.
    """
    named = os.environ.get("MATRIX_ROOT")
    if named:
        return Path(named).resolve()
    return INSTALLED if is_installed() else INSTALLED.parents[2]


def launcher() -> str:
    """Return the command that a person typed to start the program."""
    return os.environ.get("MATRIX_LAUNCHER") or ("matrix" if is_installed() else "tools/matrix")


def is_installed() -> bool:
    """Return whether the program is not that of a checkout."""
    return INSTALLED.is_dir()
