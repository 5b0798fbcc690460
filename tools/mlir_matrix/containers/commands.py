"""``matrix container``: build, list and verify images of environments."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any

import click
from rich.markup import escape

from mlir_matrix.base.errors import UsageError
from mlir_matrix.base.events import PackageProgress, Tick
from mlir_matrix.base.layout import columns
from mlir_matrix.base.text import counted, megabytes
from mlir_matrix.catalog.catalog import DEFAULT_SUITE
from mlir_matrix.cli import options
from mlir_matrix.cli.completion import ENVIRONMENTS, SUITES, names_in
from mlir_matrix.cli.output import note, show, warn
from mlir_matrix.cli.verbs import verb
from mlir_matrix.containers.daemon import Daemon, connect
from mlir_matrix.containers.documents import (
    ContainerImage,
    ContainerImages,
    ImageState,
    VerifiedContainers,
    VerifiedImage,
)
from mlir_matrix.containers.images import chosen, ensure, find, pull, reference_of, sealed
from mlir_matrix.containers.images import push as push_image
from mlir_matrix.containers.spec import LABEL_FORMAT, LABEL_NAME, can_draw, draw, is_measured, tag_of
from mlir_matrix.containers.verify import differences, doubts
from mlir_matrix.environments.resolve import ResolvedEnvironment
from mlir_matrix.environments.session import Session, remember
from mlir_matrix.execute.progress import shown

images_argument = click.argument(
    "names", nargs=-1, metavar="[ENVIRONMENT[@PINS]|SUITE|GLOB]...", shell_complete=names_in(ENVIRONMENTS, SUITES)
)


@verb(
    "build",
    "matrix container build",
    "matrix container build mlir 'torch*' --format json",
    "matrix container build mlir@llvm=19",
    "matrix container build llvm-releases --push",
)
@images_argument
@click.option("--push", is_flag=True, help="Also push the images to the registry in containers/images.yaml.")
@options.quiet
@options.output_format("table", "json")
@options.session(*options.releases)
def build_command(names: tuple[str, ...], push: bool, quiet: bool, form: str, current: Session) -> int:
    """Build the images of environments, or of all environments that tests need.

    Without arguments, build what the suite smoke needs. An image contains only packages from lock files; missing packages are
    downloaded. No base image is pulled. An image that is already correct is kept. If containers/images.yaml names a registry,
    images that it has are pulled from there.
    """
    from mlir_matrix.environments.installer import install_missing

    registry = current.catalog.containers.registry
    if push and not registry:
        raise UsageError("--push: no registry is set; add «registry: HOST:PORT/FOLDER» to containers/images.yaml")
    environments, errors = chosen(current, names or (options.suite_of_project(DEFAULT_SUITE),))
    daemon, packages = connect(), current.home.packages
    present = {each.name: _present(current, each, daemon) or _pulled(current, each, daemon) for each in environments}
    absent = [each for each in environments if present[each.name] is None]
    if absent:
        remember(current.home, current.catalog.roots, note)
    errors += install_missing(current, absent, partial(shown, quiet=quiet), note)
    complete = [each for each in absent if not each.missing(packages)]
    if complete:
        with shown(quiet=quiet) as listener:

            def tell(progress: PackageProgress) -> None:
                listener(progress)
                listener(Tick())

            ensure(complete, home=current.home, daemon=daemon, listener=tell, settings=current.catalog.containers)
    rows = [row for row in (*present.values(), *(_present(current, each, daemon, "made") for each in complete)) if row]
    rows.sort(key=lambda row: row["environment"])
    warn(*errors)
    show(form, images_document(rows), image_lines(rows), markup=True)
    for row in rows if push and registry else ():
        push_image(row["tag"], str(registry), daemon)
        note(f"{row['tag']} is pushed to {registry}")
    return 3 if errors else 0


def images_document(images: list[ContainerImage]) -> ContainerImages:
    """Return the document of images that were built or found."""
    states = dict[str, int](sorted(Counter(image["state"] for image in images).items()))
    summary: dict[str, int | dict[str, int]] = {"images": len(images), "by_state": states}
    return {"schema": "mlir-matrix/container-images/v1", "summary": summary, "images": images}


def image_lines(images: Iterable[ContainerImage]) -> Iterator[str]:
    """Yield a table of images; nothing without images."""
    cells = [
        (
            escape(image["environment"]),
            escape(image["tag"]),
            image["id"].removeprefix("sha256:")[:12],
            megabytes(image["bytes"]) if image["bytes"] else "",
            image["state"],
        )
        for image in images
    ]
    if cells:
        yield from columns(("environment", "image", "ID", "size", ""), cells, right=(3,))


def _row(environment: ResolvedEnvironment, state: ImageState, image_id: str = "", size: int = 0) -> ContainerImage:
    return {
        "environment": environment.name,
        "digest": environment.digest,
        "tag": tag_of(environment),
        "id": image_id,
        "bytes": size,
        "state": state,
    }


def _present(
    current: Session, environment: ResolvedEnvironment, daemon: Daemon, state: ImageState = "present"
) -> ContainerImage | None:
    if not can_draw(environment, current.home):
        return None
    spec = draw(environment, current.catalog.containers, current.home)
    image = find(spec, daemon)
    return _row(environment, state, image, spec.size) if image else None


def _pulled(current: Session, environment: ResolvedEnvironment, daemon: Daemon) -> ContainerImage | None:
    settings, home, tag = current.catalog.containers, current.home, tag_of(environment)
    if settings.registry is None:
        return None
    spec = draw(environment, settings, home) if can_draw(environment, home) else None
    why_not = pull(environment, spec, settings.registry, daemon)
    if why_not:
        warn(f"the image of {environment.name} is built here: {why_not}")
    found = None if why_not else daemon.image(tag)
    return _row(environment, "pulled", found["Id"], found["Size"]) if found else None


@verb("list", "matrix container list", "matrix container list mlir llvm-releases --format json")
@images_argument
@options.output_format("table", "json")
@options.session(*options.releases)
def list_command(names: tuple[str, ...], form: str, current: Session) -> None:
    """List the images of environments, or of all environments that tests need.

    Without arguments, list what the suite smoke needs and every image on this machine. A state is present, absent or stale. An
    image is stale if its lock file or its contents changed.
    """
    daemon = connect()
    environments, reasons = chosen(current, names or (options.suite_of_project(DEFAULT_SUITE),))
    ours = daemon.images(LABEL_FORMAT)
    if not names:
        known = {environment.name for environment in environments}
        more, _ = sealed(current, sorted({*_references(current, ours)} - known))
        environments += more
    rows = [_image_row(current, environment, daemon) for environment in environments]
    wanted = {row["environment"] for row in rows}
    rows += _stale(ours, {row["id"] for row in rows}, wanted if names else None)
    rows.sort(key=lambda row: (row["environment"], row["state"]))
    show(form, images_document(rows), image_lines(rows), markup=True)
    warn(*reasons)


def _image_row(current: Session, environment: ResolvedEnvironment, daemon: Daemon) -> ContainerImage:
    spec = None
    if is_measured(environment, current.home):
        spec = draw(environment, current.catalog.containers, current.home)
    said = daemon.image(tag_of(environment))
    if not said:
        return _row(environment, "absent", spec.id, spec.size) if spec else _row(environment, "absent")
    stale = differences(spec, said) if spec else doubts(environment, said)
    size = spec.size if spec else said["Size"]
    return _row(environment, "stale" if stale else "present", said["Id"], size)


def _stale(ours: Sequence[dict[str, Any]], shown: set[str], wanted: set[str] | None) -> Iterator[ContainerImage]:
    """Yield images that matrix made for earlier lock files, of the ``wanted`` environments (default: of all)."""
    for said in ours:
        name = str(said["Labels"].get(LABEL_NAME, ""))
        if said["Id"] not in shown and (wanted is None or name in wanted):
            tags = [tag for tag in said.get("RepoTags") or () if tag != "<none>:<none>"]
            yield {
                "environment": name,
                "digest": "",
                "tag": tags[0] if tags else "",
                "id": said["Id"],
                "bytes": said["Size"],
                "state": "stale",
            }


def _references(current: Session, ours: Sequence[dict[str, Any]]) -> Iterator[str]:
    for said in ours:
        try:
            yield reference_of(current, str(said["Labels"].get(LABEL_NAME, "")))
        except UsageError:
            # The environment is of another catalog, or was removed.
            continue


@verb("verify", "matrix container verify", "matrix container verify mlir --format json")
@images_argument
@options.output_format("text", "json")
@options.session(*options.releases)
def verify_command(names: tuple[str, ...], form: str, current: Session) -> int:
    """Compare images with what their lock files give, by reading every byte of the installed packages.

    Without arguments, verify what the suite smoke needs. The layers and files that differ are listed.

    Exit code: 0 no image differs; 3 an image is absent or differs.
    """
    environments, reasons = chosen(current, names or (options.suite_of_project(DEFAULT_SUITE),))
    daemon = connect()
    images: list[VerifiedImage] = [
        {"environment": each.name, "tag": tag_of(each), "differences": _wrong(current, each, daemon)}
        for each in environments
    ]
    wrong = sum(bool(image["differences"]) for image in images)
    document: VerifiedContainers = {
        "schema": "mlir-matrix/verified-containers/v1",
        "summary": {"images": len(images), "different": wrong},
        "images": images,
    }
    show(form, document, _verified_lines(images, wrong))
    warn(*reasons)
    if wrong:
        warn("matrix container build builds them again")
    return 3 if wrong or reasons else 0


def _verified_lines(images: Sequence[VerifiedImage], wrong: int) -> Iterator[str]:
    for image in images:
        for number, line in enumerate(image["differences"]):
            yield f"{image['tag']}: {line}" if number == 0 else f"  {line}"
    yield f"{counted(len(images), 'image')} compared; {wrong} differ from their lock files"


def _wrong(current: Session, environment: ResolvedEnvironment, daemon: Daemon) -> list[str]:
    """Return the differences of an image, below a summary; nothing without differences."""
    said = daemon.image(tag_of(environment))
    if said is None:
        return ["is absent"]
    missing = environment.missing(current.home.packages)
    if missing:
        labels = ", ".join(unit.label for unit in missing)
        return [f"cannot be compared: {labels} is not installed; matrix container build installs it"]
    image_spec = draw(environment, current.catalog.containers, current.home, anew=True)
    found = differences(image_spec, said)
    if not found:
        return []
    from mlir_matrix.containers.verify import changed_files  # reads the whole image

    layers = said["RootFS"].get("Layers") or []
    if layers != image_spec.diff_ids:
        found += changed_files(image_spec, layers, daemon.save(said["Id"]), current.home)
    return ["differs from its lock files", *found]
