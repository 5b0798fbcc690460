"""The first thing that runs in an environment: make its packages, and only those, importable, then be the worker.

    python -P -s -S bootstrap.py [--site FOLDER]… [--prefix RELEASE=FOLDER]…
        [--program NAME@RELEASE=PATH]… WORKER-ARGUMENTS…

``-S`` keeps the interpreter's own site-packages out; each ``--site`` is one installed package of the environment, each
``--prefix`` a release of programs with all that they need, each ``--program`` one that the machine has.
"""

from __future__ import annotations

import sys
from pathlib import Path


def _take(option: str, arguments: list[str]) -> tuple[list[str], list[str]]:
    values: list[str] = []
    while len(arguments) >= 2 and arguments[0] == option:
        values.append(arguments[1])
        arguments = arguments[2:]
    return values, arguments


if __name__ == "__main__":
    _sites, _rest = _take("--site", sys.argv[1:])
    _prefixes, _rest = _take("--prefix", _rest)
    _programs, _rest = _take("--program", _rest)
    sys.path[:0] = [str(Path(__file__).resolve().parents[2])]
    sys.path.extend(_sites)
    from mlir_matrix.actions.contract import prefixes, programs
    from mlir_matrix.actions.intact import damage, lost
    from mlir_matrix.actions.worker import main

    for _site in _sites:
        if _what := damage(_site):
            sys.exit(f"the package in {_site} is damaged: {_what}; remove that folder to have it installed again")
    for _prefix in _prefixes:
        _release, _, _path = _prefix.partition("=")
        if _what := lost(_path):
            sys.exit(f"the prefix in {_path} is damaged: {_what}; remove that folder to have it installed again")
        prefixes[_path] = _release
    for _program in _programs:
        _name, _, _release = _program.partition("@")
        _release, _, _path = _release.partition("=")
        programs[_name] = (_release, _path)
    sys.exit(main(_rest))
