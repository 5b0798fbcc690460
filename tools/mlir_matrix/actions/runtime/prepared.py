"""Unpack the inputs and outputs of a program in a foreign form, so that tools see them as those of a workload.

The ``prepare.py`` of such a form writes three files. ``interface`` is JSON with ``inputs`` and ``outputs`` as in
:class:`SignatureParams`; the size of an output is null if only the program knows it. The bundle ``arguments`` has the inputs.
The bundle ``expected`` has ``expected-NAME`` of each output and, if a bound is known, ``bound-NAME``. Its ``about.json`` has the
``rationale`` of each bound. A run writes the bundle ``results``.
"""

from __future__ import annotations

import json
import shutil
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from mlir_matrix.actions.contract import Action, Role, write_json
from mlir_matrix.actions.params import SignatureParams

INTERFACE, ARGUMENTS, EXPECTED, RESULTS = "interface", "arguments", "expected", "results"
ABOUT = "about.json"
#: The text for bounds that differ between elements.
OWN = "of each element"
#: The files that ``prepare.py`` writes beside the program.
PREPARED = {INTERFACE: "interface.json", ARGUMENTS: "arguments.zip", EXPECTED: "expected.zip"}
_FOLDER = Path("opened")


def of_draw(bundle: str, draw: int) -> str:
    """Return the name of a file in an action that reads those of several draws."""
    return f"{bundle}-{draw}"


@dataclass(frozen=True, kw_only=True)
class Expected:
    """An output of a program: its declaration, and the ``.npy`` files with expected values and with bounds, if any."""

    declared: Mapping[str, Any]
    file: str
    bound: str = ""
    #: Where the bound comes from.
    rationale: str = ""


def write_prepared(
    action: Action[Any],
    program: str,
    inputs: Sequence[tuple[Mapping[str, Any], str]],
    outputs: Sequence[Expected],
) -> None:
    """Write the outputs of ``prepare.py``: the program's text, its inputs (declaration and file), its expected outputs."""
    Path(action.outputs["program"]).write_text(program, encoding="utf-8")
    declared = {"inputs": [each for each, _ in inputs], "outputs": [each.declared for each in outputs]}
    write_json(action.outputs[INTERFACE], declared)
    pack(action.outputs[ARGUMENTS], {each["name"]: file for each, file in inputs})
    reasons = {each.declared["name"]: {"rationale": each.rationale} for each in outputs if each.rationale}
    write_json(ABOUT, reasons)
    files = {Role.EXPECTED.of(each.declared["name"]): each.file for each in outputs}
    files |= {Role.BOUND.of(each.declared["name"]): each.bound for each in outputs if each.bound}
    pack(action.outputs[EXPECTED], {**files, ABOUT: ABOUT})


def interface(action: Action[Any]) -> SignatureParams:
    """Return the inputs and outputs of a program."""
    found: SignatureParams = json.loads(Path(action.inputs[INTERFACE]).read_text(encoding="utf-8"))
    return found


@contextmanager
def opened(action: Action[Any]) -> Iterator[Action[Any]]:
    """Unpack the files of a program for an importer or a runner. Afterwards pack the results of a runner."""
    if INTERFACE not in action.inputs:
        yield action
        return
    declared = interface(action)
    params = {**action.params, **declared, "arguments": declared["inputs"], "results": declared["outputs"]}
    inputs = {name: path for name, path in action.inputs.items() if name not in (INTERFACE, ARGUMENTS)}
    outputs = dict(action.outputs)
    if ARGUMENTS not in action.inputs:
        yield replace(action, params={"dims": {}, "dim_names": {}, **params}, inputs=inputs)
        return
    # IREE reads only files with this suffix.
    arguments = unpack(action.inputs[ARGUMENTS], _FOLDER / "in", suffix=".npy")
    inputs |= {Role.ARGUMENT.of(name): path for name, path in arguments.items()}
    (_FOLDER / "out").mkdir(parents=True)
    target = outputs.pop(RESULTS)
    made = {each["name"]: str(_FOLDER / "out" / f"{at}.npy") for at, each in enumerate(declared["outputs"])}
    outputs |= {Role.RESULT.of(name): path for name, path in made.items()}
    yield replace(action, params=params, inputs=inputs, outputs=outputs)
    pack(target, made)
    shutil.rmtree(_FOLDER)


_EPOCH = (1980, 1, 1, 0, 0, 0)


def pack(path: str, files: Mapping[str, str | Path]) -> None:
    """Write a bundle of files; ``files`` has their paths by name."""
    with zipfile.ZipFile(path, "w") as bundle:
        for name, file in sorted(files.items()):
            with open(file, "rb") as source, bundle.open(zipfile.ZipInfo(name, _EPOCH), "w", force_zip64=True) as sink:
                shutil.copyfileobj(source, sink, 1 << 20)


def unpack(path: str, folder: Path, suffix: str = "") -> dict[str, str]:
    """Write the files of a bundle to a folder as ``0``, ``1``, …, each with ``suffix``; return their paths by name."""
    found: dict[str, str] = {}
    folder.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path) as bundle:
        for number, name in enumerate(bundle.namelist()):
            found[name] = str(folder / f"{number}{suffix}")
            with bundle.open(name) as source, open(found[name], "wb") as sink:
                shutil.copyfileobj(source, sink, 1 << 20)
    return found
