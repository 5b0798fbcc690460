"""Resolve an environment on this machine: an interpreter, locked packages and prefixes, or why it is unavailable."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import product
from pathlib import Path
from types import MappingProxyType

from packaging.utils import canonicalize_name

from mlir_matrix.base.digest import digest_value
from mlir_matrix.catalog.catalog import Entry
from mlir_matrix.catalog.models.toolchains import PATCHER, Component, Release
from mlir_matrix.catalog.releases import nearest_release
from mlir_matrix.environments import interpreter as interpreters
from mlir_matrix.environments.host import HostTool, LocalPackage, find_tool
from mlir_matrix.environments.interpreter import SUPPORTED, Interpreter
from mlir_matrix.environments.lockfiles.debian import DebianRelease, debian_lock_file, read_debian_lock
from mlir_matrix.environments.lockfiles.wheels import WheelPackage, find_lock, lock_files, locks_elsewhere, read_lock
from mlir_matrix.environments.own_packages import OwnBuild, OwnPackages, OwnWheel, is_changed, names_of
from mlir_matrix.environments.package import (
    Package,
    Provider,
    Releases,
    distributions,
    filled,
    is_missing,
    provider_of,
    unlocked,
    with_needs,
)
from mlir_matrix.environments.source.package import SourceBuild, source_build
from mlir_matrix.environments.source.permissions import NONE, Permissions

#: Assumed bytes of a package whose lock file states no size.
_TYPICAL = 5_000_000


@dataclass(frozen=True, kw_only=True)
class ResolvedEnvironment:
    """An environment that this machine can have."""

    name: str
    interpreter: Interpreter
    packages: tuple[WheelPackage, ...]
    #: Prefixes and host tools.
    prefixes: tuple[Package, ...] = ()
    #: Whether a catalog other than the first chose a package. Then only isolated actions may import packages.
    foreign: bool = field(default=False, compare=False)
    #: By label of a package: the nearest other release, as ``--pin`` takes it.
    nearest: Mapping[str, str] = field(default_factory=dict, compare=False)
    #: Whether it has packages that no lock file names: the user's own.
    own: bool = field(default=False, compare=False)

    @cached_property
    def digest(self) -> str:
        """Return the digest of the content. It does not depend on the name and the paths."""
        packages = sorted(package.identity for package in self.packages)
        value = {"interpreter": self.interpreter.identity(), "packages": packages}
        if self.prefixes:
            value["prefixes"] = [package.identity for package in self.prefixes]
        return digest_value(value)

    @cached_property
    def units(self) -> tuple[Package, ...]:
        """Return all packages, the interpreter's prefix included, each after its needs."""
        interpreter = [self.interpreter.prefix] if self.interpreter.prefix else []
        return tuple(with_needs([*interpreter, *self.packages, *self.prefixes]))

    @cached_property
    def folders(self) -> dict[str, Package]:
        """Return its packages by the names of their folders, without host tools."""
        return {name: each for each in self.units if (name := each.folder_for(self.interpreter.tag))}

    def sites(self, store: Path) -> list[str]:
        """Return the folders for ``sys.path``, one per wheel."""
        return [str(store / package.folder_for(self.interpreter.tag)) for package in self.packages]

    def roots(self, store: Path) -> list[str]:
        """Return the folders of its prefixes."""
        return [str(store / name) for package in self.prefixes if (name := package.folder_for(self.interpreter.tag))]

    def host_programs(self) -> list[str]:
        """Return its host tools as a worker's command line has them: ``NAME@RELEASE=PATH``."""
        return [word for package in self.prefixes if isinstance(package, HostTool) for word in package.words]

    def changed_build(self) -> str:
        """Return the folder of one of the user's builds that has changed since it was digested; empty if none has."""
        own = (package for package in self.prefixes if isinstance(package, LocalPackage))
        return next((package.pinned for package in own if is_changed(package)), "")

    @property
    def is_locked(self) -> bool:
        """Return whether lock files and this program's interpreter determine it, without programs found on PATH."""
        locked = all(isinstance(package, WheelPackage | DebianRelease) for package in self.units)
        return (
            locked and not self.own and (self.interpreter.prefix is not None or self.interpreter == interpreters.own())
        )

    @property
    def size(self) -> int:
        """Return the total bytes to download. A package without a stated size counts as an estimate."""
        return sum(package.size or _TYPICAL for package in self.units)

    def missing(self, store: Path) -> tuple[Package, ...]:
        """Return the packages that are not installed."""
        return tuple(package for package in self.units if is_missing(package, store, self.interpreter.tag))


@dataclass(frozen=True, kw_only=True)
class UnavailableEnvironment:
    """An environment that this machine cannot have; ``reason`` names the remedy."""

    name: str
    reason: str


def resolve(
    name: str,
    *,
    releases: Releases,
    lock_folders: Sequence[Path],
    needs: Releases = (),
    builds: Mapping[str, OwnBuild] = MappingProxyType({}),
    permissions: Permissions = NONE,
    pins: str = "",
    sealed: bool = False,
) -> ResolvedEnvironment | UnavailableEnvironment:
    """Resolve the environment ``name``. An environment without components is the interpreter alone.

    ``needs``: releases that source builds need. ``builds``: the user's own, by release. ``pins``: those that are not the
    default, for advice (``llvm=19,numpy=2``).
    ``sealed``: no interpreter and no program of the host, so that a container has the same environment.
    """
    providers = [provider_of(entry.document, release) for entry, release in releases]
    prefixes: tuple[Package, ...] = ()
    own = [
        (entry, build)
        for entry, release in releases
        if isinstance(build := builds.get(release.release), OwnPackages | OwnWheel)
    ]
    wanted = distributions([(entry, release) for entry, release in releases if release.release not in builds])
    try:
        if any(provider is not Provider.PYPI for provider in providers):
            prefixes = _Providers(lock_folders, needs, builds, permissions).packages(releases)
        if sealed and Provider.HOST in providers:
            host = releases[providers.index(Provider.HOST)][0].name
            raise _Unavailable(f"{host} is of this machine; a container cannot have it")
        locked = _locks(lock_folders, name, releases, builds) if wanted or own else {}
        if wanted and not locked:
            raise _Unavailable(unlocked(name, wanted, pins, locks_elsewhere(lock_folders, wanted)))
        tags = _tags(name, locked, [build for _, build in own])
        interpreter = _interpreter(tags, lock_folders[:1], sealed=sealed)
        if interpreter is None:
            raise _Unavailable(_no_interpreter(name, releases, tags or SUPPORTED, sealed=sealed))
        lock = locked.get(interpreter.tag)
        packages = read_lock(lock, wanted) if lock else ()
        foreign = lock is not None and _is_foreign(packages, lock, lock_folders[0], interpreter.tag)
        foreign = foreign or any(build.foreign for _, build in own)
        for entry, build in own:
            packages = _with_own(name, packages, entry, build, wanted)
    except _Unavailable as error:
        return UnavailableEnvironment(name=name, reason=str(error))
    named = {canonicalize_name(each) for each in wanted}
    return ResolvedEnvironment(
        name=name,
        interpreter=interpreter,
        # Large ones first: they are the wheels of the environment's components, which have most of its bytes.
        packages=tuple(
            sorted(packages, key=lambda each: (-(each.size or 0), canonicalize_name(each.name) not in named))
        ),
        prefixes=prefixes,
        foreign=foreign,
        nearest=dict(_nearest(releases)),
        own=bool(own),
    )


def _locks(folders: Sequence[Path], name: str, releases: Releases, builds: Mapping[str, OwnBuild]) -> dict[str, Path]:
    """Return the lock files of these releases by wheel tag.

    For the user's own packages, they are those of another release of the component: it has what they need.
    """
    choices = []
    for entry, release in releases:
        locked = (
            each for each in reversed(entry.document.releases) if provider_of(entry.document, each) is Provider.PYPI
        )
        is_own = isinstance(builds.get(release.release), OwnPackages | OwnWheel)
        stand_ins = [(entry, each) for each in locked if is_own and each.release not in builds]
        choices.append([*stand_ins, (entry, release)])
    found: dict[str, Path] = {}
    for chosen in product(*choices):
        pins = distributions([each for each in chosen if each[1].release not in builds])
        for tag in SUPPORTED if pins else ():
            path = find_lock(folders, name, tag, pins) if tag not in found else None
            if path is not None:
                found[tag] = path
    return {tag: found[tag] for tag in SUPPORTED if tag in found}


def _tags(name: str, locked: Mapping[str, Path], own: Sequence[OwnPackages | OwnWheel]) -> tuple[str, ...]:
    """Return the wheel tags for which an environment is locked and the user's own packages are built; none: any will do."""
    tags = tuple(locked)
    for build in own:
        fitting = tuple(tag for tag in tags or SUPPORTED if tag in build.tags)
        if not fitting:
            given, wanted = (", ".join(map(interpreters.version_of, each)) for each in (build.tags, tags))
            reason = f"{build.where} is for CPython {given}, but environment {name} is locked for {wanted}"
            raise _Unavailable(f"{reason}: build it for one of these")
        tags = fitting
    return tags


def _with_own(
    name: str,
    packages: Sequence[WheelPackage],
    entry: Entry[Component],
    build: OwnPackages | OwnWheel,
    wanted: Mapping[str, str],
) -> tuple[WheelPackage, ...]:
    """Return the locked packages beside the user's own. ``wanted``: the distributions of the other components."""
    left_out = names_of(entry)
    if isinstance(build, OwnPackages):
        left_out |= build.distributions - {canonicalize_name(each) for each in wanted}
        return tuple(package for package in packages if canonicalize_name(package.name) not in left_out)
    kept = [package for package in packages if canonicalize_name(package.name) not in left_out]
    lacking = set(build.requires) - {canonicalize_name(package.name) for package in kept}
    if lacking:
        reason = f"{build.where} requires {', '.join(sorted(lacking))}, which environment {name} lacks"
        raise _Unavailable(f"{reason}: pin a virtual environment that has it")
    return (*kept, build.package)


def _is_foreign(packages: Sequence[WheelPackage], lock: Path, first: Path, tag: str) -> bool:
    """Return whether lock files of the first catalog lack any of these packages, with all of its hashes."""
    if lock.parent == first:
        return False
    return not {package for path in lock_files(first, tag) for package in read_lock(path)}.issuperset(packages)


def _nearest(releases: Releases) -> Iterator[tuple[str, str]]:
    """Yield for each release, by label of its package, another one to use; permanent ones are preferred."""
    for entry, release in releases:
        others = [other for other in entry.document.releases if other.release != release.release]
        lasting = [other for other in others if other.durability == "permanent"]
        found = nearest_release((other.release for other in lasting or others), release.release)
        if found is not None:
            made_of = distributions([(entry, release)]) or {entry.name: release.release}
            yield from ((f"{name} {version}", f"{entry.name}={found}") for name, version in made_of.items())


def _interpreter(tags: tuple[str, ...], folders: Sequence[Path], *, sealed: bool) -> Interpreter | None:
    """Return an interpreter for any of these wheel tags; for any supported one if there are none.

    ``folders``: lock files of the first catalog only, because the interpreter of a worker is not isolated when it starts.
    """
    if not sealed and (found := interpreters.find(tags) if tags else interpreters.own()):
        return found
    return interpreters.find_locked(tags or SUPPORTED, folders)


def _no_interpreter(name: str, releases: Releases, tags: Sequence[str], *, sealed: bool) -> str:
    wanted = " or ".join(f"CPython {interpreters.version_of(tag)}" for tag in tags)
    if sealed:
        return f"environment {name} needs {wanted}, but the component cpython has no lock file of such a release"
    components = ", ".join(entry.name for entry, _ in releases)
    return (
        f"environment {name} ({components}) is for {wanted}; this is CPython {interpreters.own().version}; "
        f"put a python{interpreters.version_of(min(tags))} on PATH"
    )


def find_patcher(releases: Releases, lock_folders: Sequence[Path]) -> WheelPackage | None:
    """Return the wheel with the program that patches prefixes; it is the same for every interpreter."""
    wanted = distributions(releases)
    paths = (find_lock(lock_folders, PATCHER, tag, wanted) for tag in SUPPORTED)
    return next((read_lock(path, wanted)[0] for path in paths if path), None)


class _Unavailable(Exception):
    """A release that this machine cannot have; the message names the remedy."""


class _Providers:
    """Finds packages; ``needs`` are the releases that other releases are built with."""

    def __init__(
        self, lock_folders: Sequence[Path], needs: Releases, builds: Mapping[str, OwnBuild], permissions: Permissions
    ) -> None:
        self._folders, self._builds, self._permissions = lock_folders, builds, permissions
        self._needs = {entry.name: (entry, release) for entry, release in needs}
        self._under_way: list[str] = []

    def packages(self, releases: Releases) -> tuple[Package, ...]:
        """Return the packages of all releases that are not wheels. Raise _Unavailable."""
        return tuple(
            self._package(entry, release)
            for entry, release in releases
            if provider_of(entry.document, release) is not Provider.PYPI
        )

    def _package(self, entry: Entry[Component], release: Release) -> Package:
        provider = provider_of(entry.document, release)
        if provider is Provider.DEB:
            return self._debian(entry, release)
        own = self._builds.get(release.release)
        if isinstance(own, HostTool | OwnPackages):
            return own
        if provider is Provider.HOST:
            names = filled(release.programs or entry.document.programs, release.release)
            found = find_tool(entry.name, release.release, names)
            if isinstance(found, str):
                raise _Unavailable(found)
            return found
        return self._source(entry, release)

    def _debian(self, entry: Entry[Component], release: Release) -> DebianRelease:
        for folder in self._folders:
            path = debian_lock_file(folder, entry.name, release.release)
            if path.is_file():
                lock = read_debian_lock(path)
                return replace(lock, patcher=self._patcher()) if lock.in_place else lock
        paths = (path for folder in self._folders for path in folder.glob(f"{entry.name}-{release.release}-linux-*"))
        others = sorted({path.name for path in paths})
        raise _Unavailable(unlocked(f"{entry.name}@{release.release}", others=others))

    def _patcher(self) -> WheelPackage:
        if PATCHER not in self._needs:
            raise _Unavailable(f"no component '{PATCHER}', which patches programs for their prefix")
        # Only the first catalog may choose it, because it runs without isolation.
        found = find_patcher([self._needs[PATCHER]], self._folders[:1])
        if found is None:
            raise _Unavailable(unlocked(PATCHER, distributions([self._needs[PATCHER]])))
        return found

    def _source(self, entry: Entry[Component], release: Release) -> SourceBuild:
        if entry.document.build is None:
            raise _Unavailable(f"{entry.name}@{release.release} cannot be built: its component file has no 'build'")
        if entry.name in self._under_way:
            raise _Unavailable(f"circular needs: {' needs '.join([*self._under_way, entry.name])}")
        self._under_way.append(entry.name)
        needs = {}
        for name in entry.document.build.needs:
            if name not in self._needs:
                raise _Unavailable(f"{entry.name} needs {name}, which is not a component")
            owner, needed = self._needs[name]
            if provider_of(owner.document, needed) not in (Provider.DEB, Provider.SOURCE):
                raise _Unavailable(f"{entry.name} needs {name} {needed.release}, which has no prefix")
            needs[name] = (self._package(owner, needed), needed.release)
        self._under_way.pop()
        return source_build(entry, release, needs, self._permissions)
