"""``matrix toolchain fetch``: download and install locked packages."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import click

from mlir_matrix.catalog.catalog import DEFAULT_SUITE
from mlir_matrix.catalog.pins import PINS_MARK
from mlir_matrix.cli.lazy import Verb
from mlir_matrix.cli.options import (
    Folder,
    catalog_option,
    format_option,
    pin_option,
    quiet_option,
    sealed_option,
    session,
)
from mlir_matrix.environments.install.integrity import damaged_files, remove
from mlir_matrix.environments.lockfiles.wheels import WheelPackage
from mlir_matrix.environments.package import Package
from mlir_matrix.environments.resolve import ResolvedEnvironment
from mlir_matrix.errors import UsageError
from mlir_matrix.events import Event, PackageProgress
from mlir_matrix.files import locked
from mlir_matrix.session import Session, remember
from mlir_matrix.text import counted
from mlir_matrix.toolchains.names import selections

names_argument = click.argument("names", nargs=-1, metavar="[ENVIRONMENT|COMPONENT[@RELEASE]|SUITE|GLOB]...")


@click.command(
    "fetch",
    cls=Verb,
    examples=(
        "matrix toolchain fetch",
        "matrix toolchain fetch llvm@19 llvm@23",
        "matrix toolchain fetch llvm-releases",
        "matrix toolchain fetch 'llvm@*' --from /mnt/colleague/.cache/mlir-matrix",
        "matrix toolchain fetch llvm-source --dry-run",
    ),
)
@names_argument
@pin_option
@click.option(
    "--from", "others", multiple=True, type=Folder(), metavar="DIR",
    help="Also take archives from DIR, the cache folder of another user or any folder of packages. Repeatable.",
)  # fmt: skip
@click.option("--dry-run", is_flag=True, help="List what is missing and the commands of source builds; run none.")
@sealed_option
@quiet_option
@format_option("text", "json")
@catalog_option
def fetch(
    names: tuple[str, ...],
    pins: tuple[str, ...],
    others: tuple[Path, ...],
    dry_run: bool,
    sealed: bool,
    quiet: bool,
    form: str,
    catalogs: tuple[Path, ...],
) -> int:
    """Download and install what environments, releases or tests need.

    Without arguments, fetch what the suite smoke needs. Every byte is checked against the SHA-256 in the lock file. Installed
    packages are checked by size and time, and repaired if files are missing or changed; ``toolchain verify`` reads every byte.
    Interrupted downloads resume.

    Archives of installed packages are downloaded again only if ``toolchain verify`` found them damaged, not if ``gc --artifacts``
    removed them.
    """
    for other in others:
        if not other.is_dir():
            raise UsageError(f"--from {other}: there is no such folder")
    current = session(catalogs, pins=pins)
    environments, missing = resolved(current, names or (DEFAULT_SUITE,), sealed=sealed)
    if dry_run and form == "text":
        return _show(current, environments, missing)
    if not dry_run:
        missing += _install_all(current, environments, others, quiet)
    for error in missing:
        click.echo(f"matrix: {error}", err=True)
    if form == "json":
        click.echo(json.dumps(_document(current, environments, missing), indent=1))
    elif not missing:
        labels = sorted({unit.label for environment in environments for unit in environment.units})
        click.echo(f"{counted(len(labels), 'unit')} here: {', '.join(labels[:8])}{', …' if len(labels) > 8 else ''}")
    return 3 if missing and not dry_run else 0


def _install_all(
    current: Session, environments: Sequence[ResolvedEnvironment], others: Sequence[Path], quiet: bool
) -> list[str]:
    """Have everything that these environments lack brought; what went wrong."""
    remember(current.home, current.catalog.roots)
    repair(current, environments)
    packages = current.home.packages
    todo = [environment for environment in environments if environment.missing(packages)]
    errors: list[str] = []
    if todo:
        install_and_show(current, packages, todo, others, quiet, errors)
    for alone in _without_archives(current, environments):
        _download_archives(current, alone, others, quiet, errors)
    return errors


def _document(current: Session, environments: Iterable[ResolvedEnvironment], missing: Sequence[str]) -> dict[str, Any]:
    """What there is now, for programs: the units of each environment, and where they are."""
    from mlir_matrix.execute.plan_document import units_document

    def units(environment: ResolvedEnvironment) -> list[dict[str, Any]]:
        named = environment.name.partition(PINS_MARK)[0] in current.catalog.environments
        return units_document(environment, current.releases(environment.name) if named else ())

    return {
        "schema": "mlir-matrix/fetched/v1",
        "packages": str(current.home.packages),
        "environments": [
            {
                "name": environment.name,
                "digest": environment.digest,
                "units": units(environment),
                "missing": [unit.label for unit in environment.missing(current.home.packages)],
            }
            for environment in environments
        ],
        "unavailable": list(missing),
    }


def _show(current: Session, environments: Iterable[ResolvedEnvironment], missing: Collection[str]) -> int:
    """Print what would be fetched, as comments, and what would be run, as lines of a shell."""
    for error in missing:
        click.echo(f"matrix: {error}", err=True)
    from mlir_matrix.environments.install.installer import dry_run

    packages = current.home.packages
    units = {unit.label: unit for environment in environments for unit in environment.missing(packages)}
    for unit in units.values():
        for line in dry_run(unit, packages, current.home.cache):
            click.echo(line)
    for alone in _without_archives(current, environments):
        click.echo(f"# {alone.name}: damaged archives would be fetched again")
        units[alone.name] = alone.units[0]
    if not units and not missing:
        click.echo("# nothing: all of it is here")
    return 3 if missing else 0


def install_and_show(
    current: Session,
    packages: Path,
    todo: Sequence[ResolvedEnvironment],
    others: Sequence[Path],
    quiet: bool,
    errors: list[str],
) -> None:
    """Have everything brought that is missing in ``packages``; what goes wrong is added to ``errors``."""
    from mlir_matrix.environments.fetch.artifacts import Artifacts
    from mlir_matrix.environments.install.installer import install_all
    from mlir_matrix.report.progress import shown

    artifacts = Artifacts(current.home.artifacts, others)
    try:
        with shown(quiet=quiet) as listener:

            def tell(event: Event) -> None:
                # Errors are told at the end, together.
                if not (isinstance(event, PackageProgress) and event.error):
                    listener(event)

            errors += install_all(todo, packages, artifacts, tell).values()
    finally:
        for line in artifacts.passed_over.values():
            click.echo(f"matrix: --from: {line}", err=True)


def resolved(
    current: Session, names: Sequence[str], *, sealed: bool = False
) -> tuple[list[ResolvedEnvironment], list[str]]:
    """What names stand for here, and why some of it cannot be had."""
    found, missing = [], []
    for thing in selections(current, names):
        environment = thing.resolve(current, sealed=sealed)
        if isinstance(environment, ResolvedEnvironment):
            found.append(environment)
        elif thing.optional:
            click.echo(f"{thing.name} is left out: {environment.reason}", err=True)
        else:
            missing.append(environment.reason)
    return found, list(dict.fromkeys(missing))


def installed(current: Session, environments: Iterable[ResolvedEnvironment]) -> dict[Path, Package]:
    """Every unit of some environments that is installed, by its folder."""
    found: dict[Path, Package] = {}
    for environment in environments:
        for name, unit in environment.folders.items():
            if (current.home.packages / name).is_dir():
                found[current.home.packages / name] = unit
    return found


def repair(current: Session, environments: Iterable[ResolvedEnvironment]) -> None:
    """Remove what is visibly damaged, so that it is made again."""
    for folder, unit in installed(current, environments).items():
        damaged = damaged_files(folder, thorough=False)
        if damaged:
            click.echo(f"{unit.label} is damaged ({listed(damaged)}) and is made again", err=True)
            remove(folder)


def _without_archives(current: Session, environments: Iterable[ResolvedEnvironment]) -> Iterator[ResolvedEnvironment]:
    """Installed units whose archives were set aside because they were damaged, each once, as environments of their own."""
    from mlir_matrix.environments.fetch.artifacts import Artifacts

    store = Artifacts(current.home.artifacts)
    aside = {path.stem for path in store.leftovers() if path != store.part(path.stem)}
    found: dict[str, ResolvedEnvironment] = {}
    for environment in environments if aside else ():
        interpreter = replace(environment.interpreter, prefix=None)
        for unit in environment.units:
            name = unit.folder_for(interpreter.tag)
            lost = any(aside & {*each.hashes} and not store.holds(each) for each in unit.archives)
            if lost and (current.home.packages / name).is_dir():
                packages, prefixes = ((unit,), ()) if isinstance(unit, WheelPackage) else ((), (unit,))
                found[name] = replace(
                    environment, name=unit.label, interpreter=interpreter, packages=packages, prefixes=prefixes
                )
    yield from found.values()


def _download_archives(
    current: Session, alone: ResolvedEnvironment, others: Sequence[Path], quiet: bool, errors: list[str]
) -> None:
    """Make a unit once more beside itself, by which its archives are fetched and read, and throw that away.

    What is installed is undamaged, perhaps in use, and all that there is where an archive can no longer be had.
    """
    click.echo(f"archives of {alone.name} were damaged and are fetched again", err=True)
    packages = current.home.packages
    name = alone.units[0].folder_for(alone.interpreter.tag)
    with (
        locked(packages / ".locks" / name),
        TemporaryDirectory(prefix=f".new-{name}-", dir=packages, ignore_cleanup_errors=True) as scratch,
    ):
        install_and_show(current, Path(scratch), [alone], others, quiet, errors)


def listed(paths: Sequence[str], most: int = 5) -> str:
    """The first of some names, and how many more there are."""
    return ", ".join(paths[:most]) + (f" and {len(paths) - most} more" if len(paths) > most else "")
