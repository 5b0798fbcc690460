"""Fetch, repair and verify the packages of environments and releases."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from mlir_matrix.base.files import beside, locked
from mlir_matrix.base.names import split_pins
from mlir_matrix.base.text import first_few
from mlir_matrix.environments.c_library import CLibrary
from mlir_matrix.environments.fetch.artifacts import Artifacts
from mlir_matrix.environments.installed.integrity import damaged_files, remove
from mlir_matrix.environments.installer import Progress, Tell, install_missing
from mlir_matrix.environments.lockfiles.wheels import WheelPackage
from mlir_matrix.environments.package import Installed
from mlir_matrix.environments.resolve import ResolvedEnvironment
from mlir_matrix.environments.selection import c_libraries, locked_packages
from mlir_matrix.environments.session import Session, remember
from mlir_matrix.execute.eviction import forget_results
from mlir_matrix.toolchain.names import selections


def resolve_names(
    session: Session, names: Iterable[str], tell: Tell, *, sealed: bool = False
) -> tuple[list[ResolvedEnvironment], list[str]]:
    """Return the environments that names stand for, and why the others are unavailable."""
    found, errors = [], []
    for thing in selections(session, names):
        environment = thing.resolve(session, sealed=sealed)
        if isinstance(environment, ResolvedEnvironment):
            found.append(environment)
        elif thing.optional:
            tell(f"{thing.name} is left out: {environment.reason}")
        else:
            errors.append(environment.reason)
    return found, list(dict.fromkeys(errors))


def fetch(
    session: Session,
    environments: Sequence[ResolvedEnvironment],
    others: Sequence[Path],
    progress: Progress,
    tell: Tell,
) -> list[str]:
    """Remove visibly damaged packages, install all that are missing, and download damaged archives again; return the errors."""
    packages = session.home.packages
    remember(session.home, session.catalog.roots, tell)
    units = {packages / name: unit for environment in environments for name, unit in environment.folders.items()}
    for folder, unit in units.items():
        if folder.is_dir() and (damaged := damaged_files(folder, thorough=False, archives=unit.archives)):
            tell(f"{unit.label} is damaged ({first_few(damaged)}) and is installed again")
            remove(folder, unit.archives)
    errors = install_missing(session, environments, progress, tell, others=others)
    for alone in without_archives(session, environments):
        tell(f"archives of {alone.name} are damaged and are downloaded again")
        name = alone.units[0].folder_for(alone.interpreter.tag)
        # The installed package may be in use and stays: a second installation beside it downloads and reads the archives.
        with (
            locked(packages / ".locks" / name),
            beside(packages / name) as scratch,
        ):
            errors += install_missing(session, [alone], progress, tell, others=others, packages=scratch)
    return errors


def without_archives(session: Session, environments: Iterable[ResolvedEnvironment]) -> Iterator[ResolvedEnvironment]:
    """Yield the installed packages whose archives were damaged, each once, as environments of their own."""
    store = Artifacts(session.home.artifacts)
    aside = {path.stem for path in store.leftovers() if path != store.part(path.stem)}
    seen = set()
    for environment in environments if aside else ():
        interpreter = replace(environment.interpreter, prefix=None)
        for unit in environment.units:
            name = unit.folder_for(interpreter.tag)
            lost = any(aside & {*each.hashes} and not store.holds(each) for each in unit.archives)
            if lost and name not in seen and (session.home.packages / name).is_dir():
                seen.add(name)
                packages, prefixes = ((unit,), ()) if isinstance(unit, WheelPackage) else ((), (unit,))
                yield replace(
                    environment, name=unit.label, interpreter=interpreter, packages=packages, prefixes=prefixes
                )


class Damage(NamedTuple):
    """The results of reading all installed packages and archives."""

    #: Packages, and bytes of archives, that were read.
    packages: int
    size: int
    #: By folder: the label of a damaged package and its damaged files.
    folders: dict[str, tuple[str, list[str]]]
    #: By hash of a damaged archive: its label, empty if no lock file has it.
    archives: dict[str, str]
    #: Names to fetch for the removed packages and archives.
    names: list[str]
    #: The number of cached results that were removed.
    results: int


#: The name by which a package is fetched (empty if runs build it), its folder, the package.
_Locked = tuple[str, str, Installed]


def verify(session: Session, names: Sequence[str], tell: Tell) -> Damage:
    """Read every byte of packages and archives (default: of all lock files), and remove what is damaged.

    Also remove all cached results if a package is damaged, and the C libraries that it builds: nothing says since when it is
    damaged, and what it has made.
    """
    held = list(_named(session, names, tell)) if names else list(locked_packages(session))
    packages, store = session.home.packages, Artifacts(session.home.artifacts)
    folders = {packages / folder: unit for _, folder, unit in held if folder and (packages / folder).is_dir()}
    labels = {value: each.label for _, _, unit in held for each in unit.archives for value in each.hashes}
    entries = [entry for entry in store.entries() if not names or entry.sha256 in labels]
    damaged: dict[str, tuple[str, list[str]]] = {}
    for folder, unit in folders.items():
        if files := damaged_files(folder, thorough=True, archives=unit.archives):
            damaged[folder.name] = (unit.label, files)
    # Before the packages, so that a killed verify finds them again.
    results = forget_results(session.home) if damaged else 0
    for folder, library in _built_by([unit for folder, unit in folders.items() if folder.name in damaged], folders):
        damaged.setdefault(folder.name, (library.label, ["all files: a damaged package builds it"]))
        with locked(packages / ".locks" / folder.name):
            remove(folder)
    for folder, unit in folders.items():
        if folder.name in damaged:
            remove(folder, unit.archives)
    archives = {entry.sha256: labels.get(entry.sha256, "") for entry in store.damaged(entries)}
    for sha256 in archives:
        store.set_aside(sha256)
    size = sum(entry.size for entry in entries)
    return Damage(len(folders), size, damaged, archives, _holders(held, damaged, archives), results)


def _built_by(builders: Iterable[Installed], folders: Mapping[Path, Installed]) -> Iterator[tuple[Path, CLibrary]]:
    """Yield the C libraries that some packages build."""
    identities = {tuple(unit.identity) for unit in builders if isinstance(unit, WheelPackage)}
    for folder, unit in folders.items():
        if isinstance(unit, CLibrary) and not identities.isdisjoint(unit.built_by):
            yield folder, unit


def _named(session: Session, names: Sequence[str], tell: Tell) -> Iterator[_Locked]:
    environments, errors = resolve_names(session, names, tell)
    for error in errors:
        tell(f"matrix: {error}")
    for environment in environments:
        for unit in environment.units:
            yield environment.name, unit.folder_for(environment.interpreter.tag), unit
        for library in c_libraries(session, split_pins(environment.name)[0], environment.packages):
            yield "", library.folder, library


def _holders(held: Sequence[_Locked], folders: Collection[str], archives: Collection[str]) -> list[str]:
    """Return the names by which damaged packages are fetched: for each package, the one with the fewest packages."""
    sizes = Counter(name for name, _, _ in held)
    smallest: dict[str, str] = {}
    for name, folder, unit in sorted(held, key=lambda each: sizes[each[0]]):
        hashes = {value for archive in unit.archives for value in archive.hashes}
        if name and (folder in folders or not hashes.isdisjoint(archives)):
            smallest.setdefault(unit.label, name)
    return sorted(set(smallest.values()))
