"""``matrix container build``: build missing images."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import click
from rich.markup import escape

from mlir_matrix.catalog.catalog import DEFAULT_SUITE
from mlir_matrix.cli.lazy import Verb
from mlir_matrix.cli.options import catalog_option, pin_option, quiet_option, session
from mlir_matrix.cli.toolchain.fetch import install_and_show
from mlir_matrix.environments.resolve import ResolvedEnvironment
from mlir_matrix.errors import UsageError
from mlir_matrix.events import PackageProgress, Tick
from mlir_matrix.images.daemon import Daemon, connect
from mlir_matrix.images.images import chosen, ensure, find, pull
from mlir_matrix.images.images import push as push_image
from mlir_matrix.images.spec import ImageSpec, can_draw, draw, tag_of
from mlir_matrix.report.layout import columns, print_lines, stdout_console
from mlir_matrix.session import Session, remember
from mlir_matrix.text import megabytes

images_argument = click.argument("names", nargs=-1, metavar="[ENVIRONMENT[@PINS]|SUITE|GLOB]...")


@click.command(
    "build",
    cls=Verb,
    examples=(
        "matrix container build",
        "matrix container build mlir torch",
        "matrix container build mlir@llvm=19",
        "matrix container build llvm-releases --push",
    ),
)
@images_argument
@pin_option
@click.option("--push", is_flag=True, help="Also push the images to the registry in containers/images.yaml.")
@quiet_option
@catalog_option
def build(names: tuple[str, ...], pins: tuple[str, ...], push: bool, quiet: bool, catalogs: tuple[Path, ...]) -> int:
    """Build the images of environments, or of all environments that tests need.

    Without arguments, build what the suite smoke needs. An image contains only packages from lock files; missing packages are
    downloaded. No base image is pulled. An image that is already correct is kept. If containers/images.yaml names a registry,
    images that it has are pulled from there.
    """
    current = session(catalogs, pins=pins)
    registry = current.catalog.containers.registry
    if push and not registry:
        raise UsageError("--push: no registry is named; say «registry: HOST:PORT/FOLDER» in containers/images.yaml")
    environments, errors = chosen(current, names or (DEFAULT_SUITE,))
    work = _Work(current, connect(), quiet)
    work.do(environments, errors)
    for error in errors:
        click.echo(f"matrix: {error}", err=True)
    print_lines(stdout_console(), work.lines())
    if push and registry:
        for row in work.rows:
            push_image(row.tag, registry, work.daemon)
            click.echo(f"{row.tag} is in {registry}")
    return 3 if errors else 0


class Row(NamedTuple):
    """An image, as it is shown."""

    environment: str
    tag: str
    id: str
    size: int
    how: str


class _Work:
    """What is done for some environments, and what came of it."""

    def __init__(self, current: Session, daemon: Daemon, quiet: bool) -> None:
        self._current = current
        self._settings = current.catalog.containers
        self._quiet = quiet
        self.daemon = daemon
        self.rows: list[Row] = []

    def do(self, environments: Sequence[ResolvedEnvironment], errors: list[str]) -> None:
        """Have the images of all of them; what goes wrong is added to ``errors``."""
        absent = [environment for environment in environments if not self._is_here(environment)]
        absent = [environment for environment in absent if not self._is_taken(environment)]
        packages = self._current.home.packages
        missing = [environment for environment in absent if environment.missing(packages)]
        if missing:
            remember(self._current.home, self._current.catalog.roots)
            install_and_show(self._current, packages, missing, (), self._quiet, errors)
        whole = [environment for environment in absent if not environment.missing(packages)]
        if whole:
            self._make(whole)

    def _is_here(self, environment: ResolvedEnvironment) -> bool:
        if self.daemon.image(tag_of(environment)) is None:
            return False
        image_spec = self._draw(environment)
        return image_spec is not None and self._note(image_spec, "present")

    def _is_taken(self, environment: ResolvedEnvironment) -> bool:
        """Whether it could be had from the registry, if there is one."""
        registry = self._settings.registry
        if registry is None:
            return False
        why = pull(environment, self._draw(environment), registry, self.daemon)
        if why:
            click.echo(f"matrix: the image of {environment.name} is made here: {why}", err=True)
            return False
        said = self.daemon.image(tag_of(environment))
        if said:
            self.rows.append(Row(environment.name, tag_of(environment), said["Id"], said["Size"], "pulled"))
        return said is not None

    def _make(self, environments: Sequence[ResolvedEnvironment]) -> None:
        from mlir_matrix.report.progress import shown

        home = self._current.home
        with shown(quiet=self._quiet) as listener:

            def tell(progress: PackageProgress) -> None:
                listener(progress)
                listener(Tick())

            ensure(environments, home=home, daemon=self.daemon, listener=tell, settings=self._settings)
        for environment in environments:
            self._note(draw(environment, self._settings, home), "made")

    def _draw(self, environment: ResolvedEnvironment) -> ImageSpec | None:
        home = self._current.home
        return draw(environment, self._settings, home) if can_draw(environment, home) else None

    def _note(self, image_spec: ImageSpec, how: str) -> bool:
        image = find(image_spec, self.daemon)
        if image:
            self.rows.append(Row(image_spec.environment.name, image.tag, image.id, image_spec.size, how))
        return image is not None

    def lines(self) -> list[str]:
        """A table of the images."""
        cells = [
            (escape(row.environment), escape(row.tag), short_id(row.id), megabytes(row.size), row.how)
            for row in sorted(self.rows)
        ]
        return columns(("environment", "image", "ID", "size", ""), cells, right=(3,)) if cells else []


def short_id(value: str) -> str:
    """An image's ID as daemons show it to people."""
    return value.removeprefix("sha256:")[:12]
