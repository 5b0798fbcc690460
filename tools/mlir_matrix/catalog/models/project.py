"""Define the model of a project (``matrix.yaml`` at its root): what commands in its folders take where they are given nothing."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, StrictFloat, StrictInt

from mlir_matrix.catalog.models.base import Document, Name, Text


class ProjectLimits(Document):
    """Limits of an action, and how many run at a time, as ``--timeout``, ``--memory`` and ``--jobs`` set them."""

    timeout: Annotated[StrictInt | StrictFloat, Field(ge=0.1, le=86_400)] | None = None
    """Seconds."""
    memory: Annotated[StrictInt, Field(ge=64, le=1 << 20)] | None = None
    """MiB."""
    jobs: Annotated[StrictInt, Field(ge=1, le=512)] | None = None


class Project(Document):
    """What commands in the folders of a project use (``matrix.yaml``). Options on the command line come first."""

    catalogs: tuple[Text, ...] = (".",)
    """Folders of catalogs, from this file. ``--catalog`` adds to them."""
    suite: Name | None = None
    """The suite of commands without a suite or test. Absent: smoke."""
    target: Name | None = None
    """The only target of commands without a suite or test."""
    pins: dict[Name, Text] = Field(default={})
    """By component: a release, or the folder or wheel of your own build, from this file: ``../build``."""
    machine: Text | None = None
    """The machine whose tests are selected, as ``--machine`` sets it: a name, or a file, from this one."""
    limits: ProjectLimits = ProjectLimits()
