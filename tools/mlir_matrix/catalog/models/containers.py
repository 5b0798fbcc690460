"""What the YAML file in ``containers/`` may say."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, StrictInt, StrictStr

from mlir_matrix.catalog.models.base import Document, Name

_REGISTRY = r"^[a-z0-9][a-z0-9.-]*(:[0-9]{1,5})?(/[a-z0-9][a-z0-9._-]*)*$"


class Containers(Document):
    """How images of environments are made (``containers/images.yaml``); what is in them, the locks of the environments say."""

    user: Annotated[StrictInt, Field(ge=1, le=65535)] = 10001
    """Number of the user that containers run as, which is also its group's: not root."""
    first: tuple[Name, ...] = ()
    """Packages that many environments have, as pip and components call them. Their layers come first, in this order, so that
    a daemon keeps them once: it shares a layer only where all those below it are the same."""
    registry: Annotated[StrictStr, Field(pattern=_REGISTRY)] | None = None
    """Where images are taken from, and with ``--push`` brought to: ``HOST:PORT/FOLDER``. Absent: they are made here."""


#: What texts must be that a pattern refuses.
RULES = {_REGISTRY: "a registry, such as 'registry.example.com:5000/ci', without 'https://'"}
