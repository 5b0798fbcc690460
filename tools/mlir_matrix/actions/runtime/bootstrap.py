"""Start a worker in an environment, so that it can import the packages of that environment and no others.

    python -P -s -S bootstrap.py [--loader LOADER=FOLDER:FOLDER…] [--checked] [--site FOLDER]… [--own FOLDER]…
        [--prefix RELEASE=FOLDER]… [--program NAME@RELEASE=PATH]… [--bind PATH]… WORKER-ARGUMENTS…

``-S`` leaves out the interpreter's own site-packages. Each ``--site`` is an installed package, each ``--own`` a folder of the
user's packages. Each ``--prefix`` is a release of programs with all that they need. Each ``--program`` is a program of the
machine. Actions see these paths and each ``--bind``.
``--checked``: Bazel has verified every byte of these folders. Their files are links to unknown paths, so actions see all files.
``--loader``: the caller had only relative paths for the interpreter and its libraries; start again with absolute paths.
``--foreign``, an argument of the worker: an untrusted catalog chose packages, so only actions can import them.
"""

import os
import sys


def _take(option: str, arguments: list[str]) -> tuple[list[str], list[str]]:
    values: list[str] = []
    while len(arguments) >= 2 and arguments[0] == option:
        values.append(arguments[1])
        arguments = arguments[2:]
    return values, arguments


def _start_again(told: str, rest: list[str]) -> None:
    loader, _, folders = told.partition("=")
    program = os.path.abspath(sys.orig_argv[0])
    libraries = ":".join(os.path.abspath(folder) for folder in folders.split(":"))
    options = sys.orig_argv[1 : sys.orig_argv.index(sys.argv[0])]
    words = ["--inhibit-cache", "--argv0", program, "--library-path", libraries, program, *options, sys.argv[0], *rest]
    os.execv(loader, [loader, *words])  # noqa: S606 - there is no shell


if __name__ == "__main__":
    _loaders, _rest = _take("--loader", sys.argv[1:])
    for _loader in _loaders:
        _start_again(_loader, _rest)
    _checked = _rest[:1] == ["--checked"]
    _sites, _rest = _take("--site", _rest[_checked:])
    _own, _rest = _take("--own", _rest)
    _prefixes, _rest = _take("--prefix", _rest)
    _programs, _rest = _take("--program", _rest)
    _bound, _rest = _take("--bind", _rest)
    # Absolute, because actions change the folder. Links are not resolved.
    _here = os.path.dirname(os.path.abspath(__file__))
    # Its folder is not added to sys.path: an installed program has other packages beside it.
    _package = sys.modules["mlir_matrix"] = type(sys)("mlir_matrix")
    _package.__path__ = [os.path.dirname(os.path.dirname(_here))]
    from mlir_matrix.actions.runtime import bytecode

    # Before any import that could read a damaged file.
    bytecode.keep_as_told()
    _sites = [os.path.abspath(_site) for _site in _sites]
    if "--foreign" not in _rest:
        sys.path.extend([*_sites, *_own])
    from mlir_matrix.actions.contract import prefixes, programs, sites
    from mlir_matrix.actions.runtime.integrity import damage, lost
    from mlir_matrix.actions.runtime.programs import needed_of_machine
    from mlir_matrix.actions.runtime.worker import main
    from mlir_matrix.actions.sandbox.root import needed_by

    sites.extend([*_sites, *_own])
    for _site in () if _checked else _sites:
        if _what := damage(_site):
            sys.exit(f"the package in {_site} is damaged: {_what}; remove that folder to have it installed again")
    for _prefix in _prefixes:
        _release, _, _path = _prefix.partition("=")
        _path = os.path.abspath(_path)
        if not _checked and (_what := lost(_path)):
            sys.exit(f"the prefix in {_path} is damaged: {_what}; remove that folder to have it installed again")
        prefixes[_path] = _release
        _bound += [_path] if _checked else [_path, *needed_of_machine(_path)]
    for _program in _programs:
        _name, _, _release = _program.partition("@")
        _release, _, _path = _release.partition("=")
        programs[_name] = (_release, _path)
        _bound.extend(needed_by(_path))
    sys.exit(main(_rest, None if _checked else [*_sites, *_own, *_bound]))
