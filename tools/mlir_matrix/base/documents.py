"""What the types of all documents share."""

from __future__ import annotations

from pydantic import ConfigDict, with_config

#: Decorates the type of a document: unknown keys are refused in it and its parts.
document = with_config(ConfigDict(extra="forbid"))
