"""The specification of an image, a value made from an environment alone: layers, configuration and ID."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from packaging.utils import canonicalize_name

from mlir_matrix.actions.sandbox.isolation import CLEAN_ENVIRONMENT
from mlir_matrix.base.digest import canonical, digest_bytes
from mlir_matrix.base.paths import Home
from mlir_matrix.catalog.models.toolchains import Containers
from mlir_matrix.containers.layers import (
    FORMAT,
    ImageLayer,
    known,
    measure,
    root_layer,
    root_members,
    unit_layer,
    unit_members,
)
from mlir_matrix.containers.tar import Member
from mlir_matrix.environments.package import Package
from mlir_matrix.environments.resolve import ResolvedEnvironment

#: A constant time of creation, the same as that of files.
CREATED = "1980-01-02T00:00:00Z"
#: Prefix of our images' names.
REPOSITORY = "mlir-matrix"
#: Labels. The first is on every image of ours.
LABEL_FORMAT, LABEL_NAME = "mlir-matrix.format", "mlir-matrix.environment"
LABEL_DIGEST, LABEL_UNITS = "mlir-matrix.digest", "mlir-matrix.units"
#: Digits of a digest in a tag.
_SHORT = 12


@dataclass(frozen=True, kw_only=True)
class ImageSpec:
    """Layers and configuration of an image."""

    environment: ResolvedEnvironment = field(compare=False)
    #: Its folder among the packages.
    interpreter: str
    layers: tuple[ImageLayer, ...]
    user: int

    @property
    def tag(self) -> str:
        return tag_of(self.environment)

    @property
    def size(self) -> int:
        return sum(layer.size for layer in self.layers)

    @property
    def id(self) -> str:
        """Return the image's ID: the digest of the configuration, which has those of the layers."""
        return f"sha256:{digest_bytes(self.config)}"

    @property
    def diff_ids(self) -> list[str]:
        """Return the digests of its layers, as daemons write them."""
        return [f"sha256:{layer.digest}" for layer in self.layers]

    @cached_property
    def settings(self) -> Mapping[str, Any]:
        """Return what containers of the image start with."""
        return {
            "User": f"{self.user}:{self.user}",
            "Env": [f"{name}={value}" for name, value in CLEAN_ENVIRONMENT.items()],
            "WorkingDir": "/work",
            "Labels": {
                LABEL_FORMAT: str(FORMAT),
                LABEL_NAME: self.environment.name,
                LABEL_DIGEST: self.environment.digest,
                LABEL_UNITS: ", ".join(layer.label for layer in self.layers if layer.folder),
            },
        }

    @cached_property
    def config(self) -> bytes:
        """Return the configuration, byte for byte: the ID depends on it."""
        return canonical(
            {
                "architecture": "amd64",
                "os": "linux",
                "created": CREATED,
                "config": self.settings,
                "rootfs": {"type": "layers", "diff_ids": self.diff_ids},
                "history": [{"created": CREATED, "created_by": layer.label} for layer in self.layers],
            }
        )


def layer_members(layer: ImageLayer, spec: ImageSpec, home: Home) -> list[Member]:
    """Return the members of a layer. Raise InfrastructureError for a file that no image can hold."""
    if layer.folder:
        return unit_members(home.packages / layer.folder)
    return root_members(spec.interpreter, spec.user)


def tag_of(environment: ResolvedEnvironment) -> str:
    """Return the tag of an environment's image, ``mlir-matrix/mlir-llvm-19.1.7:0a1b2c3d4e5f``."""
    name = re.sub(r"[^a-z0-9]*[^a-z0-9.][^a-z0-9]*|\.{2,}", "-", environment.name.lower()).strip("-")
    return f"{REPOSITORY}/{name}:{environment.digest[:_SHORT]}"


def can_draw(environment: ResolvedEnvironment, home: Home) -> bool:
    """Return whether the spec can be made now: each package is installed, or its layer known."""
    missing = ((folder, unit) for folder, unit in environment.folders.items() if not (home.packages / folder).is_dir())
    return all(known(unit, folder, home) for folder, unit in missing)


def is_measured(environment: ResolvedEnvironment, home: Home) -> bool:
    """Return whether the spec can be made without reading a package."""
    return all(known(unit, folder, home) for folder, unit in environment.folders.items())


def draw(environment: ResolvedEnvironment, settings: Containers, home: Home, *, anew: bool = False) -> ImageSpec:
    """Return the spec of a sealed environment. Packages with unknown layers are read and must be installed.

    ``anew`` reads all of them. Raise InfrastructureError if one is missing or damaged.
    """
    interpreter = environment.interpreter
    if interpreter.prefix is None:
        raise ValueError(f"{environment.name} is not sealed: its interpreter is this machine's")
    first = root_layer(interpreter.prefix.folder, settings.user)
    units = in_order(environment, settings.first)
    find = measure if anew else unit_layer
    layers = (first, *(find(unit, unit.folder_for(interpreter.tag), home) for unit in units))
    return ImageSpec(environment=environment, interpreter=interpreter.prefix.folder, layers=layers, user=settings.user)


def in_order(environment: ResolvedEnvironment, first: Iterable[str]) -> list[Package]:
    """Return packages in the order of layers. Daemons share a layer if all layers below it are the same."""
    place = {canonicalize_name(name): number for number, name in enumerate(first)}

    def key(unit: Package) -> tuple[bool, int, str]:
        name = canonicalize_name(unit.label.partition(" ")[0])
        return unit is not environment.interpreter.prefix, place.get(name, len(place)), unit.label

    return sorted(environment.folders.values(), key=key)
