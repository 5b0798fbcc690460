"""One exception hierarchy; each class knows the exit code that a command ends with."""

from __future__ import annotations


class MatrixError(Exception):
    """Something a person must hear about. The message says what is wrong, where, and what would be right."""

    exit_code = 2


class UsageError(MatrixError):
    """The command line asks for something that is not there or cannot be done (exit 2)."""


class CatalogError(MatrixError):
    """The files are wrong (exit 2). The message begins with ``file:line:column`` where a place is known."""


class InfrastructureError(MatrixError):
    """Nobody's verdict: disk full, a pin that cannot be fetched, a daemon gone (exit 3)."""

    exit_code = 3


class UnavailableError(InfrastructureError):
    """Nothing failed, but this machine cannot have it: tests that need it are skipped."""


class DiskFullError(InfrastructureError):
    """A disk is full: a run ends, because all that follows would fail as well."""
