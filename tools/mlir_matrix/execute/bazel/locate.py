"""Which Bazel is used: what ``MATRIX_BAZEL`` names, else the machine's where it will do, else the component ``bazel``."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from mlir_matrix.environments.install.integrity import damaged_files, remove
from mlir_matrix.environments.install.prefix import wrapper
from mlir_matrix.environments.package import Listener
from mlir_matrix.errors import InfrastructureError, UsageError
from mlir_matrix.execute.bazel.probe import probe
from mlir_matrix.session import Session
from mlir_matrix.toolchains.names import prefix_of, require

OVERRIDE = "MATRIX_BAZEL"
COMPONENT = "bazel"
_NAMES = ("bazel", "bazelisk")


@dataclass(frozen=True, kw_only=True)
class Bazel:
    """The Bazel that is used."""

    #: The words that start it; its own follow.
    command: tuple[str, ...]
    version: str
    #: What brought it: the variable, PATH, or the component.
    where: str
    #: Whether it is here; a component may have to be fetched.
    here: bool = True
    #: Others that were looked at, each with the reason why it is not used.
    rejected: tuple[str, ...] = ()


def locate(session: Session, *, fetch: bool = True, listener: Listener = lambda _progress: None) -> Bazel:
    """The Bazel to use, the component fetched where it comes to that, unless ``fetch`` is false.

    Raises UsageError where ``MATRIX_BAZEL`` is none, InfrastructureError where there is none at all.
    """
    named = os.environ.get(OVERRIDE, "")
    if named:
        return _named(session, named)
    rejected = []
    for name in _NAMES:
        path = shutil.which(name)
        if path is None:
            rejected.append(f"no {name} is on PATH")
            continue
        found = probe(Path(path), session.home.state)
        if not found.reason:
            return Bazel(command=(path,), version=found.version, where="PATH", rejected=tuple(rejected))
        rejected.append(f"{path} {found.reason}")
    return _component(session, tuple(rejected), fetch, listener)


def _named(session: Session, named: str) -> Bazel:
    """What a person names is used, whatever its builds come to: they say it then."""
    path = shutil.which(named)
    if path is None:
        raise UsageError(f"{OVERRIDE}: there is no program {named}; name the path of a Bazel, or unset it")
    found = probe(Path(path), session.home.state, build=False)
    if found.reason:
        raise UsageError(f"{OVERRIDE}: {path} {found.reason}")
    return Bazel(command=(os.path.abspath(path),), version=found.version, where=OVERRIDE)


def _component(session: Session, rejected: tuple[str, ...], fetch: bool, listener: Listener) -> Bazel:
    try:
        environment, folder = prefix_of(session, COMPONENT)
        if fetch:
            if damaged_files(folder, thorough=False) and folder.is_dir():
                remove(folder)
            require(session, environment, listener)
    except InfrastructureError as error:
        reasons = "; ".join([*rejected, f"the component {COMPONENT}: {error}"])
        raise InfrastructureError(
            f"there is no Bazel to use: {reasons}. Set {OVERRIDE} to the path of one that is 7 or newer"
        ) from None
    return Bazel(
        command=(str(wrapper(folder, COMPONENT)),), version=environment.prefixes[0].release, where="component",
        here=not environment.missing(session.home.packages), rejected=rejected,
    )  # fmt: skip
