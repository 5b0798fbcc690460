"""One exception hierarchy; each class knows the exit code that a command ends with."""

from __future__ import annotations


class MatrixError(Exception):
    """An error for the user. The message says what is wrong, where, and how to fix it."""

    exit_code = 2


class UsageError(MatrixError):
    """The command line is wrong: it names something that does not exist or cannot be done (exit 2)."""


class CatalogError(MatrixError):
    """The files are wrong (exit 2). The message begins with ``file:line:column`` if the position is known."""


class InfrastructureError(MatrixError):
    """Infrastructure error (exit 3): a full disk, a pin that cannot be fetched, a stopped daemon. It is no verdict."""

    exit_code = 3


class UnavailableError(InfrastructureError):
    """Nothing failed, but this machine cannot have a package: tests that need it are skipped."""


class DiskFullError(InfrastructureError):
    """A disk is full. A run ends, because later installations would fail as well."""
