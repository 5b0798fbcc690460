"""The file of a level. Apart from what plans levels, because a kept answer needs only this."""

from __future__ import annotations

from typing import NamedTuple


class LevelFile(NamedTuple):
    """The file of a level: the name of the level, that of the file, and its digest in the action cache."""

    level: str
    name: str
    digest: str
