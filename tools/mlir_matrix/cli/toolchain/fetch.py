"""``matrix toolchain fetch``: download and install locked packages."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import click

from mlir_matrix.base.errors import UsageError
from mlir_matrix.base.text import counted
from mlir_matrix.catalog.catalog import DEFAULT_SUITE
from mlir_matrix.catalog.pins import PINS_MARK
from mlir_matrix.cli import options
from mlir_matrix.cli.output import note, show, warn
from mlir_matrix.cli.verbs import verb
from mlir_matrix.environments.resolve import ResolvedEnvironment
from mlir_matrix.environments.session import Session
from mlir_matrix.execute.plan_document import units_document
from mlir_matrix.execute.progress import shown
from mlir_matrix.toolchains.fetch import fetch, first, resolve_names, without_archives

names_argument = click.argument("names", nargs=-1, metavar="[ENVIRONMENT|COMPONENT[@RELEASE]|SUITE|GLOB]...")


@verb(
    "fetch",
    "matrix toolchain fetch",
    "matrix toolchain fetch llvm@19 llvm@23",
    "matrix toolchain fetch llvm-releases",
    "matrix toolchain fetch 'llvm@*' --from /mnt/colleague/.cache/mlir-matrix",
)
@names_argument
@click.option(
    "--from", "others", multiple=True, type=options.Folder(), metavar="DIR",
    help="Also take archives from DIR, the cache folder of another user or any folder of packages. Repeatable.",
)  # fmt: skip
@click.option("--dry-run", is_flag=True, help="List what is missing and the commands of source builds; run none.")
@options.sealed
@options.quiet
@options.output_format("text", "json")
@options.session(*options.releases, *options.builds)
def fetch_command(
    names: tuple[str, ...],
    others: tuple[Path, ...],
    dry_run: bool,
    sealed: bool,
    quiet: bool,
    form: str,
    current: Session,
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
    environments, errors = resolve_names(current, names or (DEFAULT_SUITE,), note, sealed=sealed)
    if not dry_run:
        errors += fetch(current, environments, others, partial(shown, quiet=quiet), note)
    warn(*errors)
    if dry_run and form == "text":
        for line in _dry_run(current, environments) or ([] if errors else ["# nothing is missing"]):
            click.echo(line)
        return 3 if errors else 0
    labels = sorted({unit.label for environment in environments for unit in environment.units})
    installed = [] if errors else [f"{counted(len(labels), 'package')} installed: {first(labels, 8)}"]
    show(form, _document(current, environments, errors), installed)
    return 3 if errors and not dry_run else 0


def _dry_run(current: Session, environments: Iterable[ResolvedEnvironment]) -> list[str]:
    """Return the downloads as comments, and the commands of source builds as lines of a shell."""
    from mlir_matrix.environments.installer import dry_run  # imports urllib3

    packages = current.home.packages
    units = {unit.label: unit for environment in environments for unit in environment.missing(packages)}
    lines = [line for unit in units.values() for line in dry_run(unit, packages, current.home.cache)]
    damaged = without_archives(current, environments)
    return [*lines, *(f"# {alone.name}: damaged archives would be downloaded again" for alone in damaged)]


def _document(current: Session, environments: Iterable[ResolvedEnvironment], errors: Iterable[str]) -> dict[str, Any]:
    def entries() -> Iterator[dict[str, Any]]:
        for environment in environments:
            named = environment.name.partition(PINS_MARK)[0] in current.catalog.environments
            yield {
                "name": environment.name,
                "digest": environment.digest,
                "units": units_document(environment, current.releases(environment.name) if named else ()),
                "missing": [unit.label for unit in environment.missing(current.home.packages)],
            }

    found, unavailable = list(entries()), list(errors)
    return {
        "schema": "mlir-matrix/fetched/v1",
        "summary": {
            "environments": len(found),
            "incomplete": sum(bool(entry["missing"]) for entry in found),
            "unavailable": len(unavailable),
        },
        "packages": str(current.home.packages),
        "environments": found,
        "unavailable": unavailable,
    }
