"""Type of the document of ``matrix cache gc``."""

from __future__ import annotations

from typing import Literal

from typing_extensions import TypedDict


class RemovedFiles(TypedDict):
    """What was removed, or would be."""

    results: int
    files: int
    """Outputs of actions that no remaining result needs, and incomplete files."""
    scratch_folders: int
    """Folders of runs that were killed."""
    bytes: int


class KeptFiles(TypedDict):
    """What is left."""

    results: int
    files: int
    bytes: int
    in_use: int
    """Number of results that running commands may use. They are kept whatever their size and age."""


class EvictionSummary(TypedDict):
    """Numbers of files, and their bytes."""

    removed: RemovedFiles
    kept: KeptFiles


class CacheGc(TypedDict):
    """Results removed from the action cache (`matrix cache gc --format json`)."""

    schema: Literal["mlir-matrix/cache-gc/v1"]
    cache: str
    """Folder of the action cache."""
    max_bytes: int
    max_age_days: int | None
    dry_run: bool
    """True if nothing was removed."""
    summary: EvictionSummary
