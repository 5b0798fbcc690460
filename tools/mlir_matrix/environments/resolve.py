"""From an environment's name to what it is on this machine: an interpreter and locked packages, or why not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from mlir_matrix.digest import digest_value
from mlir_matrix.environments import interpreter as interpreters
from mlir_matrix.environments.interpreter import Interpreter
from mlir_matrix.environments.lock import Package, lock_file, read_lock


@dataclass(frozen=True, kw_only=True)
class ResolvedEnvironment:
    """An environment that can be made here."""

    name: str
    interpreter: Interpreter
    packages: tuple[Package, ...]

    @cached_property
    def digest(self) -> str:
        """Address of its content: equal digests, equal behaviour, whatever it is called."""
        packages = sorted([package.name, package.version, *package.hashes] for package in self.packages)
        return digest_value({"interpreter": self.interpreter.identity(), "packages": packages})

    def sites(self, store: Path) -> list[str]:
        """The folders that go on ``sys.path``, one a package."""
        return [str(store / package.folder(self.interpreter.tag)) for package in self.packages]

    def missing(self, store: Path) -> tuple[Package, ...]:
        """Packages that are not installed yet."""
        tag = self.interpreter.tag
        return tuple(package for package in self.packages if not (store / package.folder(tag)).is_dir())


@dataclass(frozen=True, kw_only=True)
class UnavailableEnvironment:
    """An environment that this machine cannot have, and what would serve."""

    name: str
    reason: str


def resolve(
    name: str, *, components: Sequence[str], lock_folders: Sequence[Path]
) -> ResolvedEnvironment | UnavailableEnvironment:
    """What the environment ``name`` is here. Environments without components need the interpreter alone."""
    if not components:
        return ResolvedEnvironment(name=name, interpreter=interpreters.own(), packages=())
    locked = {
        tag: path
        for tag in interpreters.SUPPORTED
        # The first catalog's lock counts: one that joins adds environments and changes none.
        for folder in reversed(lock_folders)
        if (path := lock_file(folder, name, tag)).is_file()
    }
    if not locked:
        reason = f"environment {name} has no lock; make one with: matrix toolchain lock {name}"
        return UnavailableEnvironment(name=name, reason=reason)
    found = interpreters.find(tuple(locked))
    if found is None:
        wanted = " or ".join(f"CPython {tag[2]}.{tag[3:]}" for tag in locked)
        reason = (
            f"environment {name} ({', '.join(components)}) is locked for {wanted}; this is CPython "
            f"{interpreters.own().version}. A python{min(locked)[2]}.{min(locked)[3:]} on PATH would serve"
        )
        return UnavailableEnvironment(name=name, reason=reason)
    packages = read_lock(locked[found.tag])
    # What the environment is named for is most of what has to be fetched: it goes first.
    packages = tuple(sorted(packages, key=lambda package: package.name.lower().replace("_", "-") not in components))
    return ResolvedEnvironment(name=name, interpreter=found, packages=packages)
