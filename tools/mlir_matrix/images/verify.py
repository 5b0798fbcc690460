"""How an image that a daemon has differs from what the locks give."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import zip_longest
from typing import Any

from mlir_matrix.environments.resolve import ResolvedEnvironment
from mlir_matrix.images.layers import FORMAT
from mlir_matrix.images.spec import LABEL_DIGEST, LABEL_FORMAT, Blueprint

#: What no container may begin with: it would be run, or lie over what is in the image.
_NOTHING = ("Entrypoint", "Cmd", "Volumes", "OnBuild")


def differences(blueprint: Blueprint, said: Mapping[str, Any]) -> list[str]:
    """Sentences on what differs, from what the daemon says of the image; none where it is the same.

    Daemons call an image by the digest of its configuration, which has everything. Docker with containerd's store calls it
    by that of a manifest of its own: then layers and configuration decide.
    """
    if said["Id"] == blueprint.id:
        return []
    found = [*_settings(blueprint, said.get("Config") or {}), *_layers(blueprint, said)]
    by_manifest = any(digest.endswith(f"@{said['Id']}") for digest in said.get("RepoDigests") or ())
    return found if found or by_manifest else [f"its ID is {said['Id']}, not {blueprint.id}; layers and user are right"]


def doubts(environment: ResolvedEnvironment, said: Mapping[str, Any]) -> list[str]:
    """What an image says of itself that is not so; for where nobody knows what its layers must be."""
    wanted = {LABEL_FORMAT: str(FORMAT), LABEL_DIGEST: environment.digest}
    labels = (said.get("Config") or {}).get("Labels") or {}
    return list(_labels(wanted, {key: labels[key] for key in wanted if key in labels}))


def _settings(blueprint: Blueprint, found: Mapping[str, Any]) -> Iterator[str]:
    for key, value in blueprint.settings.items():
        if key == "Labels":
            yield from _labels(value, found.get(key) or {})
        elif found.get(key) != value:
            yield f"its {key} is {_shown(found.get(key))}, not {_shown(value)}"
    for key in _NOTHING:
        if found.get(key):
            yield f"it has {key} {_shown(found[key])}, and should have none"


def _labels(wanted: Mapping[str, str], found: Mapping[str, str]) -> Iterator[str]:
    for key in sorted(wanted.keys() | found.keys()):
        if found.get(key) != wanted.get(key):
            yield f"its label {key} is {_shown(found.get(key))}, not {_shown(wanted.get(key))}"


def _layers(blueprint: Blueprint, said: Mapping[str, Any]) -> Iterator[str]:
    found = (said.get("RootFS") or {}).get("Layers") or []
    for layer, digest in zip_longest(blueprint.layers, found):
        if layer is None:
            yield f"it has one more layer, {digest}"
        elif digest is None:
            yield f"it has no layer for {layer.label}"
        elif digest != f"sha256:{layer.digest}":
            yield f"its layer {digest} is not that of {layer.label}, sha256:{layer.digest}"


def _shown(value: Any, most: int = 120) -> str:
    text = str(value)
    return text if len(text) <= most else f"{text[:most]}…"
