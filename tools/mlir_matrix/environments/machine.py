"""The host's architecture, as lock files, wheels, Debian and the dynamic loader name it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cache

#: By machine: Debian's architecture, and the loader if it is not ``lib/ld-linux-MACHINE.so.1``.
_DEBIAN = {"x86_64": "amd64", "aarch64": "arm64", "ppc64le": "ppc64el"}
_LOADER = {
    "x86_64": "lib64/ld-linux-x86-64.so.2",
    "riscv64": "lib/ld-linux-riscv64-lp64d.so.1",
    "ppc64le": "lib64/ld64.so.2",
    "s390x": "lib/ld64.so.1",
}


@dataclass(frozen=True)
class Architecture:
    """An architecture by the name that ``uname -m`` prints."""

    name: str

    @property
    def platform(self) -> str:
        """Return the last part of the names of lock files."""
        return f"linux-{self.name}"

    @property
    def wheel_platforms(self) -> list[str]:
        """Return the platform tags of wheels, as pip takes them."""
        tags = [f"manylinux_2_{minor}" for minor in range(17, 40)] + ["manylinux2014", "linux"]
        return [f"{tag}_{self.name}" for tag in tags]

    @property
    def debian(self) -> str:
        return _DEBIAN.get(self.name, self.name)

    @property
    def triplet(self) -> str:
        """Return the name of Debian's folders of libraries."""
        return f"{self.name}-linux-gnu"

    @property
    def libraries(self) -> tuple[str, ...]:
        """Return the folders of a prefix with the libraries of the system."""
        return f"lib/{self.triplet}", f"usr/lib/{self.triplet}"

    @property
    def linked_loader(self) -> str:
        """Return the path of the loader that programs and the linker script libc.so name."""
        return _LOADER.get(self.name, f"lib/ld-linux-{self.name}.so.1")

    @property
    def loader(self) -> str:
        return os.path.basename(self.linked_loader)

    @property
    def loaders(self) -> tuple[str, ...]:
        """Return the paths where a prefix may have its loader."""
        folder = os.path.dirname(self.linked_loader)
        return tuple(f"{each}/{self.loader}" for each in (folder, f"usr/{folder}", *self.libraries))


HOST = Architecture(os.uname().machine)
#: Architectures that ``matrix toolchain lock`` locks for, by platform.
LOCKABLE = {each.platform: each for each in map(Architecture, ("x86_64", "aarch64"))}


@cache
def x86_level() -> str:
    """Return the level of x86-64 that this CPU has, as compilers spell it, e.g. ``x86-64-v3``; empty for other architectures."""
    from archspec.cpu import host

    level = str(host().generic.name)
    return level.replace("_", "-") if level.startswith("x86_64") else ""
