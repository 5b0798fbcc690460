"""From an environment's name to what it is on this machine: an interpreter, locked packages and prefixes, or why not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from mlir_matrix.catalog.releases import nearest_release
from mlir_matrix.digest import digest_value
from mlir_matrix.environments import interpreter as interpreters
from mlir_matrix.environments.host import HostTool
from mlir_matrix.environments.interpreter import Interpreter
from mlir_matrix.environments.lockfiles.wheels import WheelPackage, find_lock, read_lock
from mlir_matrix.environments.package import Package, is_missing, with_needs
from mlir_matrix.environments.providers import Providers, Unavailable
from mlir_matrix.environments.releases import Releases, distributions, provider_of, unlocked

#: Bytes of a package whose lock does not say.
_TYPICAL = 5_000_000


@dataclass(frozen=True, kw_only=True)
class ResolvedEnvironment:
    """An environment that can be made here."""

    name: str
    interpreter: Interpreter
    packages: tuple[WheelPackage, ...]
    #: Releases that are programs: prefixes of their own with all that they need, or the machine's.
    prefixes: tuple[Package, ...] = ()
    #: For what may vanish, by its label: the nearest other release, as ``--pin`` takes it.
    nearest: Mapping[str, str] = field(default_factory=dict, compare=False)

    @cached_property
    def digest(self) -> str:
        """Address of its content: equal digests, equal behaviour, whatever it is called."""
        packages = sorted(package.identity for package in self.packages)
        value = {"interpreter": self.interpreter.identity(), "packages": packages}
        if self.prefixes:
            value["prefixes"] = [unit.identity for unit in self.prefixes]
        return digest_value(value)

    @cached_property
    def units(self) -> tuple[Package, ...]:
        """Everything that it is made of, each after what it needs."""
        interpreter = [self.interpreter.prefix] if self.interpreter.prefix else []
        return tuple(with_needs([*interpreter, *self.packages, *self.prefixes]))

    def sites(self, store: Path) -> list[str]:
        """The folders that go on ``sys.path``, one a package."""
        return [str(store / package.folder(self.interpreter.tag)) for package in self.packages]

    def roots(self, store: Path) -> list[str]:
        """The folders of its prefixes."""
        return [str(store / name) for unit in self.prefixes if (name := unit.folder_for(self.interpreter.tag))]

    def host_programs(self) -> list[str]:
        """Its programs that are the machine's: ``NAME@RELEASE=PATH``."""
        return [program for unit in self.prefixes if isinstance(unit, HostTool) for program in unit.words]

    @property
    def is_locked(self) -> bool:
        """Whether locks alone decide what it is, and no program that was found on PATH."""
        if not self.prefixes:
            return self.interpreter == interpreters.own()
        from mlir_matrix.environments.lockfiles.debian import DebianRelease  # few environments have any

        locked = all(isinstance(unit, WheelPackage | DebianRelease) for unit in self.units)
        return locked and self.interpreter == interpreters.own()

    @property
    def size(self) -> int:
        """Bytes to fetch where nothing is there; a guess where a lock does not say."""
        return sum(unit.size or _TYPICAL for unit in self.units)

    def missing(self, store: Path) -> tuple[Package, ...]:
        """Units that are not installed yet."""
        return tuple(unit for unit in self.units if is_missing(unit, store, self.interpreter.tag))


@dataclass(frozen=True, kw_only=True)
class UnavailableEnvironment:
    """An environment that this machine cannot have, and what would serve."""

    name: str
    reason: str


def resolve(
    name: str,
    *,
    releases: Releases,
    lock_folders: Sequence[Path],
    needs: Releases = (),
    pins: str = "",
    sealed: bool = False,
) -> ResolvedEnvironment | UnavailableEnvironment:
    """What the environment ``name`` is here. Environments without components need the interpreter alone.

    ``needs``: releases of what some of its releases are built with. ``pins``: what of them is not the default, for advice
    (``llvm=19,numpy=2``). ``sealed``: nothing of it is this machine's, so that it is the same in a container and elsewhere.
    """
    prefixes: tuple[Package, ...] = ()
    if any(provider_of(entry.document, release) != "pypi" for entry, release in releases):
        try:
            prefixes = Providers(lock_folders, needs).packages(releases)
        except Unavailable as error:
            return UnavailableEnvironment(name=name, reason=str(error))
    if sealed and (ours := _of_machine(releases)):
        return UnavailableEnvironment(name=name, reason=f"{ours} is a program of this machine, which is nowhere else")
    wanted = distributions(releases)
    locked = _locks(name, wanted, lock_folders) if wanted else {}
    if wanted and not locked:
        return UnavailableEnvironment(name=name, reason=unlocked(name, wanted, pins))
    found = _interpreter(tuple(locked), lock_folders, sealed=sealed)
    if found is None:
        return UnavailableEnvironment(name=name, reason=_unsuitable(name, releases, locked, sealed=sealed))
    packages: tuple[WheelPackage, ...] = ()
    if wanted:
        # What the environment is named for is most of what has to be fetched: it goes first.
        packages = tuple(
            sorted(
                read_lock(locked[found.tag], wanted),
                key=lambda package: (-(package.size or 0), package.name.lower().replace("_", "-") not in wanted),
            )
        )
    return ResolvedEnvironment(
        name=name, interpreter=found, packages=packages, prefixes=prefixes, nearest=dict(_nearest(releases))
    )


def _nearest(releases: Releases) -> Iterator[tuple[str, str]]:
    """What could serve instead of each release, by the labels of its units; best what will stay."""
    for entry, release in releases:
        others = [other for other in entry.document.releases if other.release != release.release]
        lasting = [other for other in others if other.durability == "permanent"]
        found = nearest_release((other.release for other in lasting or others), release.release)
        if found is not None:
            made_of = distributions([(entry, release)]) or {entry.name: release.release}
            yield from ((f"{name} {version}", f"{entry.name}={found}") for name, version in made_of.items())


def _interpreter(tags: tuple[str, ...], folders: Sequence[Path], *, sealed: bool) -> Interpreter | None:
    """One for any of these wheel tags, or, without any, one that there are locks for."""
    if not sealed and (found := interpreters.find(tags) if tags else interpreters.own()):
        return found
    return interpreters.find_locked(tags or interpreters.SUPPORTED, folders)


def _of_machine(releases: Releases) -> str:
    """A release that is the machine's own; empty where there is none."""
    found = (entry.name for entry, release in releases if provider_of(entry.document, release) == "host")
    return next(found, "")


def _locks(name: str, wanted: Mapping[str, str], folders: Sequence[Path]) -> dict[str, Path]:
    """The lock for each interpreter that there is one for."""
    return {tag: path for tag in interpreters.SUPPORTED if (path := find_lock(folders, name, tag, wanted))}


def _unsuitable(name: str, releases: Releases, locked: Mapping[str, Path], *, sealed: bool) -> str:
    wanted = " or ".join(f"CPython {interpreters.version_of(tag)}" for tag in locked or interpreters.SUPPORTED)
    if sealed:
        return f"environment {name} needs {wanted}, and the component cpython has no lock of a release of that"
    components = ", ".join(entry.name for entry, _ in releases)
    return (
        f"environment {name} ({components}) is locked for {wanted}; this is CPython "
        f"{interpreters.own().version}. A python{interpreters.version_of(min(locked))} on PATH would serve"
    )
