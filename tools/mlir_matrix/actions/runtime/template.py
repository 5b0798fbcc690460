"""``${name}`` in passes and schedules."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

_PLACE = re.compile(r"\$\{([A-Za-z0-9_.+-]+)\}")


def fill(text: str, parameters: Mapping[str, Any]) -> str:
    """Replace ``${name}`` by the parameter's value: lists as ``1, 2, 3``, booleans as MLIR writes them.

    KeyError for a name that has no value; the loader has refused such files before.
    """
    return _PLACE.sub(lambda match: _spell(parameters[match.group(1)]), text)


def _spell(value: Any) -> str:
    if isinstance(value, list | tuple):
        return ", ".join(_spell(item) for item in value)
    return str(value).lower() if isinstance(value, bool) else str(value)
