"""Define the configuration of all types of documents."""

from __future__ import annotations

from pydantic import ConfigDict, with_config

#: Decorator of a document's type. It refuses unknown keys in the document and its parts.
document = with_config(ConfigDict(extra="forbid"))
