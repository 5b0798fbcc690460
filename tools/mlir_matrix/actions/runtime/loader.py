"""The words that run a program of a prefix by the prefix's own loader, wherever the prefix stands."""

from __future__ import annotations

from collections.abc import Iterable


def by_loader(root: str, loader: str, libraries: Iterable[str], path: str, name: str) -> list[str]:
    """``loader``, ``libraries`` and ``path`` go from ``root``; ``name`` is what the program is told that it is called."""
    places = ":".join(f"{root}/{folder}" for folder in libraries)
    # Without the host's cache of libraries: what is missing here must not be found there.
    options = ["--inhibit-cache", "--argv0", name, "--library-path", places]
    return [f"{root}/{loader}", *options, f"{root}/{path}"]
