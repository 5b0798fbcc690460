"""MLIR's headers and libraries, and a compiler with the C library that they were built with, as Debian packages in a prefix."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from support.workspace import REPOSITORY, Workspace

#: A catalog with the component and its lock.
CATALOG = REPOSITORY / "tests" / "system" / "source"


def fetch(workspace: Workspace, catalog: Path) -> None:
    """Install the prefix; lock it anew where packages of it have gone from the mirror."""
    done = workspace("toolchain", "fetch", "mlir-dev", "--quiet", "--catalog", catalog)
    if done.code == 3 and " does not have pool/" in done.stderr:
        assert workspace("toolchain", "lock", "mlir-dev@19.1.7", "--catalog", catalog).code == 0
        done = workspace("toolchain", "fetch", "mlir-dev", "--quiet", "--catalog", catalog)
    assert done.code == 0, done.stderr


def definitions(root: Path) -> Iterator[str]:
    """The options with which CMake takes compiler, C library and MLIR of a prefix, whose loader then runs what is built."""
    libraries = [root / "lib/x86_64-linux-gnu", root / "usr/lib/x86_64-linux-gnu"]
    flags = f"--sysroot={root} -B{root}/.matrix/bin -B{root}/usr/lib/gcc/x86_64-linux-gnu/12"
    linking = " ".join(f"-Wl,-rpath-link,{folder}" for folder in libraries)
    found = {
        "CMAKE_C_COMPILER": root / ".matrix/bin/gcc-12",
        "CMAKE_CXX_COMPILER": root / ".matrix/bin/g++-12",
        "CMAKE_C_FLAGS": flags,
        "CMAKE_CXX_FLAGS": flags,
        "CMAKE_EXE_LINKER_FLAGS": f"{linking} -Wl,--dynamic-linker={root}/lib64/ld-linux-x86-64.so.2",
        "CMAKE_BUILD_RPATH": ";".join(map(str, libraries)),
        "CMAKE_FIND_ROOT_PATH": root,
        "CMAKE_FIND_ROOT_PATH_MODE_LIBRARY": "ONLY",
        "CMAKE_FIND_ROOT_PATH_MODE_INCLUDE": "ONLY",
        "MLIR_DIR": root / "usr/lib/llvm-19/lib/cmake/mlir",
    }
    yield from (f"-D{name}={value}" for name, value in found.items())
