"""Find the folders of the program's state: the XDG cache and state folders, or ``MATRIX_HOME`` for all of it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

#: The files of the repository that a wheel contains. The program must not change them.
INSTALLED = Path(__file__).resolve().parents[1] / "_repository"


def _base(variable: str, default: str) -> Path:
    value = os.environ.get(variable, "")
    # The XDG specification says to ignore a relative path.
    return Path(value) if value.startswith("/") else Path.home() / default


@dataclass(frozen=True, kw_only=True)
class Home:
    """The folders that the program writes to. A folder is created with its first file."""

    cache: Path
    state: Path
    actions: Path

    @property
    def packages(self) -> Path:
        """Installed packages, one folder each, shared by the environments.

        Links are resolved, because compiled Python is stored by path: homes that share packages then share that, too.
        """
        return Path(os.path.realpath(self.cache / "packages"))

    @property
    def artifacts(self) -> Path:
        """Downloaded files, by hash."""
        return self.cache / "artifacts"

    @property
    def layers(self) -> Path:
        """Records of the layers of images, one for each package."""
        return self.cache / "layers"

    @property
    def bytecode(self) -> Path:
        """Compiled Python, outside of the folders whose content is digested."""
        return self.cache / "bytecode"

    @property
    def scratch(self) -> Path:
        """Folders of running actions, on the file system of the action cache, so that moving results there is cheap."""
        return self.actions / "scratch"


def find_home(*, cache_dir: Path | None = None) -> Home:
    """Return the folders of this user. ``cache_dir`` (``--cache-dir``) moves only the action cache."""
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

    It is ``MATRIX_ROOT``, else the files in the installed wheel, else the checkout of this package.
    """
    named = os.environ.get("MATRIX_ROOT")
    return Path(named).resolve() if named else _files()


def _files() -> Path:
    """Return the folder with the files of this program, whatever ``MATRIX_ROOT`` is."""
    return INSTALLED if is_installed() else INSTALLED.parents[2]


def cmake_folder() -> Path:
    """Return the folder of the module for ``find_package(MlirMatrix)``."""
    return _files() / "tools" / "cmake"


def launcher() -> str:
    """Return the command with which the user started the program."""
    return os.environ.get("MATRIX_LAUNCHER") or ("matrix" if is_installed() else "tools/matrix")


def launcher_path() -> str:
    """Return the path of the launcher, for files that other programs read in any folder."""
    import shutil  # most commands need none of it

    return os.path.abspath(shutil.which(launcher()) or _files() / launcher())


def is_installed() -> bool:
    """Return whether the program is installed, and not run from a checkout."""
    return INSTALLED.is_dir()
