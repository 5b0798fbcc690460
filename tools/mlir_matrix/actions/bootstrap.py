"""The first thing that runs in an environment: make its packages, and only those, importable, then be the worker.

    python -P -s -S bootstrap.py [--site FOLDER]… WORKER-ARGUMENTS…

``-S`` keeps the interpreter's own site-packages out; each ``--site`` is one installed package of the environment.
"""

from __future__ import annotations

import sys
from pathlib import Path


def _take_sites(arguments: list[str]) -> tuple[list[str], list[str]]:
    sites: list[str] = []
    while len(arguments) >= 2 and arguments[0] == "--site":
        sites.append(arguments[1])
        arguments = arguments[2:]
    return sites, arguments


if __name__ == "__main__":
    _sites, _rest = _take_sites(sys.argv[1:])
    sys.path[:0] = [str(Path(__file__).resolve().parents[2])]
    sys.path.extend(_sites)
    from mlir_matrix.actions.intact import damage
    from mlir_matrix.actions.worker import main

    for _site in _sites:
        if _what := damage(_site):
            sys.exit(f"the package in {_site} is damaged: {_what}; remove that folder to have it installed again")
    sys.exit(main(_rest))
