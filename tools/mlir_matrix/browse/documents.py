"""Types of the documents of ``matrix list`` and ``matrix show``."""

from __future__ import annotations

from typing import Literal

from typing_extensions import TypedDict

from mlir_matrix.base.documents import document


class ListedEntry(TypedDict):
    """An entry of a catalog."""

    kind: str
    """`workload`, `step`, `pipeline`, …"""
    name: str
    description: str
    file: str
    """Its YAML file."""


class NamingEntry(TypedDict):
    """An entry that names the one that is shown."""

    kind: str
    name: str
    position: str
    """File, line and column."""


class ShownEntry(ListedEntry):
    """An entry, and where it is used."""

    text: str
    """The content of its YAML file."""
    used_by: list[NamingEntry]
    suites: dict[str, int]
    """By suite: the number of its tests with this framework, pipeline, target or workload."""


@document
class Listing(TypedDict):
    """The entries of the catalogs (`matrix list --format json`)."""

    schema: Literal["mlir-matrix/listing/v1"]
    summary: dict[str, int]
    """By kind: the number of entries."""
    entries: list[ListedEntry]


@document
class ShownEntries(TypedDict):
    """All entries of a name (`matrix show --format json`)."""

    schema: Literal["mlir-matrix/entry/v1"]
    summary: dict[str, int]
    """By kind: the number of entries."""
    entries: list[ShownEntry]
