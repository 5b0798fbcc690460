"""Images of environments: select, find, make and load them; pull from and push to a registry."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence

from mlir_matrix.base.digest import canonical
from mlir_matrix.base.errors import InfrastructureError, UsageError
from mlir_matrix.base.events import PackageListener, PackageProgress
from mlir_matrix.base.names import PINS_MARK, did_you_mean, is_glob, printable, select_known
from mlir_matrix.base.paths import Home
from mlir_matrix.base.text import counted
from mlir_matrix.catalog.models.toolchains import Containers
from mlir_matrix.catalog.pins import read_pins
from mlir_matrix.containers.daemon import Daemon
from mlir_matrix.containers.layers import ImageLayer, known, measure
from mlir_matrix.containers.spec import ImageSpec, draw, layer_members, tag_of
from mlir_matrix.containers.tar import Member, in_pieces, pack, size_of, text
from mlir_matrix.containers.verify import differences, doubts
from mlir_matrix.environments.package import Package
from mlir_matrix.environments.resolve import ResolvedEnvironment
from mlir_matrix.environments.session import Session
from mlir_matrix.plan.session import environments_of

#: Called after each layer with the number of written and of all layers.
Tell = Callable[[int, int], None]


def ensure(
    environments: Iterable[ResolvedEnvironment],
    *,
    home: Home,
    daemon: Daemon,
    listener: PackageListener,
    settings: Containers | None = None,
) -> dict[str, str]:
    """Return the IDs of images of these sealed environments by digest; make and load absent ones. Raise InfrastructureError.

    All packages must be in ``home.packages``.
    """
    # Environments with different names may have the same digest.
    wanted = {environment.name: environment for environment in environments}.values()
    _measure(wanted, home, listener)
    drawn = [draw(environment, settings or Containers(), home) for environment in wanted]
    ids = {spec.tag: find(spec, daemon) for spec in drawn}
    absent = [spec for spec in drawn if not ids[spec.tag]]
    if absent:
        _make(absent, home=home, daemon=daemon, listener=listener)
    for spec in absent:
        ids[spec.tag] = find(spec, daemon)
        if not ids[spec.tag]:
            raise InfrastructureError(f"the container daemon loaded {spec.tag}, but does not have this image")
    return {spec.environment.digest: ids[spec.tag] for spec in drawn}


def find(spec: ImageSpec, daemon: Daemon) -> str:
    """Return the ID of the daemon's image if that matches the spec, else an empty string."""
    described = daemon.image(spec.tag)
    return "" if described is None or differences(spec, described) else str(described["Id"])


def _measure(environments: Iterable[ResolvedEnvironment], home: Home, listener: PackageListener) -> None:
    """Compute unknown digests of layers; a gigabyte takes a second."""
    todo: dict[str, Package] = {}
    for environment in environments:
        todo |= {name: unit for name, unit in environment.folders.items() if known(unit, name, home) is None}
    label = f"digests of {counted(len(todo), 'layer')}"
    for number, (folder, unit) in enumerate(todo.items()):
        listener(PackageProgress(package=label, received=number, total=len(todo), phase="building"))
        measure(unit, folder, home)
    if todo:
        listener(PackageProgress(package=label, done=True))


def _make(specs: Sequence[ImageSpec], *, home: Home, daemon: Daemon, listener: PackageListener) -> None:
    names = ", ".join(spec.environment.name for spec in specs)
    label = f"image of {names}" if len(specs) == 1 else f"images of {names}"

    def tell(done: int, total: int) -> None:
        listener(PackageProgress(package=label, received=done, total=total, phase="building"))

    daemon.load(in_pieces(archive(specs, home, tell)))
    listener(PackageProgress(package=label, done=True))


def pull(environment: ResolvedEnvironment, spec: ImageSpec | None, registry: str, daemon: Daemon) -> str:
    """Pull the image of an environment. Return why it is not used, or an empty string.

    Without a ``spec``, because packages are not installed, only the labels of the image are checked.
    """
    tag = tag_of(environment)
    try:
        daemon.pull(f"{registry}/{tag}")
    except InfrastructureError as error:
        return str(error)
    described = daemon.image(f"{registry}/{tag}")
    if described is None:
        return f"the container daemon pulled {tag} from {registry} but does not have it"
    wrong = differences(spec, described) if spec else doubts(environment, described)
    if wrong:
        return f"{registry}/{tag} does not match the lock files: {wrong[0]}"
    daemon.tag(described["Id"], tag)
    return ""


def push(tag: str, registry: str, daemon: Daemon) -> None:
    """Push an image. Raise InfrastructureError."""
    daemon.tag(tag, f"{registry}/{tag}")
    daemon.push(f"{registry}/{tag}")


def archive(specs: Sequence[ImageSpec], home: Home, tell: Tell = lambda _done, _of: None) -> Iterator[bytes]:
    """Yield the docker-archive of images, each shared layer once.

    Raise InfrastructureError if a package has changed since its layer was measured.
    """
    layers = {layer.digest: (layer, spec) for spec in specs for layer in spec.layers}
    for number, (layer, spec) in enumerate(layers.values()):
        tell(number, len(layers))
        yield from _layer(layer, layer_members(layer, spec, home))
    manifest = []
    for spec in specs:
        name = f"{spec.id.removeprefix('sha256:')}.json"
        yield from text(name, spec.config.decode()).pieces()
        places = [_place(layer) for layer in spec.layers]
        manifest.append({"Config": name, "RepoTags": [spec.tag], "Layers": places})
    yield from pack([text("manifest.json", canonical(manifest).decode())])
    tell(len(layers), len(layers))


def _layer(layer: ImageLayer, listed: Sequence[Member]) -> Iterator[bytes]:
    """Yield a layer as a file of the archive."""
    changed = InfrastructureError(
        f"{layer.label} has changed since its layer was measured; run: matrix toolchain verify"
    )
    if size_of(listed) != layer.size:
        raise changed
    yield Member(path=_place(layer), mode=0o644, size=layer.size).header
    state = hashlib.sha256()
    # A layer is whole blocks and needs no padding.
    for piece in in_pieces(pack(listed)):
        state.update(piece)
        yield piece
    if state.hexdigest() != layer.digest:
        raise changed


def _place(layer: ImageLayer) -> str:
    return f"{layer.digest}.tar"


def chosen(session: Session, names: Iterable[str]) -> tuple[list[ResolvedEnvironment], list[str]]:
    """Return the sealed environments of names, and why some are unavailable. Raise UsageError for an unknown name."""
    from mlir_matrix.expand.select import is_suite  # not needed by executors

    references: dict[str, None] = {}
    for name in names:
        base, mark, pins = name.partition(PINS_MARK)
        if is_glob(base) and "/" not in base:
            named = select_known("environment", [base], session.catalog.environments)
            references |= dict.fromkeys(reference_of(session, f"{each}{mark}{pins}") for each in named)
        elif base in session.catalog.environments or (is_suite(base) and base not in session.catalog.suites):
            references[reference_of(session, name)] = None
        else:
            references |= dict.fromkeys(environments_of(session, name))
    return sealed(session, list(references))


def sealed(session: Session, references: Sequence[str]) -> tuple[list[ResolvedEnvironment], list[str]]:
    """Return sealed environments by reference, and why some are unavailable."""
    found, reasons = [], []
    for reference in references:
        environment = session.environment(reference, sealed=True)
        if isinstance(environment, ResolvedEnvironment):
            found.append(environment)
        else:
            reasons.append(environment.reason)
    return found, list(dict.fromkeys(reasons))


def reference_of(session: Session, name: str) -> str:
    """Return an environment's name as plans have it, from ``mlir@llvm=19``. Raise UsageError."""
    base, mark, suffix = name.partition(PINS_MARK)
    if base not in session.catalog.environments:
        near = did_you_mean(base, [*session.catalog.environments, *session.catalog.suites])
        raise UsageError(f"there is no environment or suite '{printable(base)}'{near}")
    if not mark:
        return session.pins.reference(base)
    pins = read_pins(session.catalog, suffix.split(","), printable(name))
    return session.pins.override(",".join(f"{key}={value}" for key, value in pins.items())).reference(base)
