"""``matrix toolchain push`` and ``pull``: share built commits by a store."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mlir_matrix.base.errors import UsageError
from mlir_matrix.base.names import check_known
from mlir_matrix.base.text import counted, megabytes
from mlir_matrix.cli import options
from mlir_matrix.cli.output import show
from mlir_matrix.cli.verbs import verb
from mlir_matrix.environments.source.store import BuildStore, Sizes, builds_of, push
from mlir_matrix.toolchain.documents import TransferredBuild, TransferredBuilds

if TYPE_CHECKING:
    from mlir_matrix.environments.session import Session

_names = click.argument("names", nargs=-1, required=True, metavar="COMPONENT[@COMMIT]...")


@verb("push", "matrix toolchain push llvm --to /srv/builds", "matrix toolchain push llvm@0123abcd --to /srv/builds")
@_names
@click.option(
    "--to",
    "store",
    required=True,
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="The store's folder.",
)
@options.output_format("text", "json")
@options.session()
def push_command(names: tuple[str, ...], store: Path, form: str, current: Session) -> None:
    """Add the commits that bisections and integrations have built to a store: a folder, which a web server can serve.

    Files that several builds have are kept once.
    """
    packages = current.home.packages
    here = [path.name for path in packages.iterdir() if path.is_dir()] if packages.is_dir() else []
    found = _wanted(current, names, here, str(packages))
    _transfer("pushed", found, lambda name: push(packages / name, store), form)


@verb(
    "pull",
    "matrix toolchain pull llvm --from https://builds.example.com",
    "matrix toolchain pull llvm --from /srv/builds",
)
@_names
@click.option("--from", "store", required=True, metavar="DIR|URL", help="The store.")
@options.output_format("text", "json")
@options.session()
def pull_command(names: tuple[str, ...], store: str, form: str, current: Session) -> None:
    """Take built commits from a store, so that bisections and integrations need not build them.

    Their programs will run here: name only a store that you trust.
    """
    there = BuildStore(store)
    found = _wanted(current, names, there.builds(), store)
    _transfer("pulled", found, lambda name: there.pull(name, current.home.packages), form)


def _wanted(current: Session, names: Iterable[str], builds: Sequence[str], where: str) -> list[str]:
    """Return the builds that names stand for. Raise UsageError if a name stands for none."""
    found = dict[str, None]()
    for name in names:
        component, _, digits = name.partition("@")
        check_known("component", [component], current.catalog.components)
        ours = builds_of(builds, component, digits[:12])
        if not ours:
            raise UsageError(f"{name}: {where} has no build of such a commit")
        found |= dict.fromkeys(ours)
    return list(found)


def _transfer(state: str, names: Iterable[str], transfer: Callable[[str], Sizes], form: str) -> None:
    rows: list[TransferredBuild] = []
    for name in names:
        sizes = transfer(name)
        rows.append({"name": name, "bytes": sizes.files, "transferred": sizes.transferred})
    document: TransferredBuilds = {
        "schema": "mlir-matrix/builds/v1",
        "summary": {
            "builds": len(rows),
            "bytes": sum(each["bytes"] for each in rows),
            "transferred": sum(each["transferred"] for each in rows),
        },
        "builds": rows,
    }
    show(form, document, _lines(state, document))


def _lines(state: str, document: TransferredBuilds) -> Iterator[str]:
    for each in document["builds"]:
        yield f"{each['name']}: {megabytes(each['transferred'])} for {megabytes(each['bytes'])}"
    summary = document["summary"]
    yield f"{counted(summary['builds'], 'build')} {state}, {megabytes(summary['transferred'])}"
