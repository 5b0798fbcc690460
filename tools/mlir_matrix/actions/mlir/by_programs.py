"""The backend of a release's programs: ``mlir-opt``, ``mlir-translate``, ``opt`` and ``llc``."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from mlir_matrix.actions.contract import Action, ActionFailed, read_text
from mlir_matrix.actions.mlir import interface, kinds, reasons
from mlir_matrix.actions.mlir.backend import Printed, printed_forms
from mlir_matrix.actions.mlir.generic_form import Written, signature
from mlir_matrix.actions.params import BackendParams, Contract, StepParams, Value
from mlir_matrix.actions.runtime import programs

#: From this release on ``mlir-opt`` prints the IR after each pass into a folder.
_PRINTS_FILES = 19
#: From this release on a pipeline names the operation that it is anchored to; before, that was always the module.
ANCHORED = 16
#: The second level of x86-64 has SSE 4.1, which rounds numbers: without it, code generators differ in more than speed.
_BASELINE = {"x86_64": "x86-64-v2"}
#: From this release on ``llc`` contracts only what an operation itself allows.
CONTRACTS_MARKED_ONLY = 24
_IGNORED = re.compile(r"'[^'\n]*' is not a recognized (?:feature|processor) for this target")
_CONTRACTION = ("off", "fast")
_GENERIC = "--mlir-print-op-generic"
_LOCATED = ("--mlir-print-debuginfo", "--mlir-print-local-scope", "--mlir-elide-elementsattrs-if-larger=8")
#: A pass that prints how many of each operation there are, the first release that has its option, and what it prints.
_COUNT, _COUNTING = "print-op-stats{json=true}", 15
_COUNTS = re.compile(r'^\{\n(?: +"[^"\n]+" : \d+,?\n)*\}$', re.MULTILINE)
_DEFINED = re.compile(rf"^define .*@{interface.ENTRY}\(", re.MULTILINE)


def preload() -> None:
    """Import nothing, because each action starts its own programs."""


def transform(
    action: Action[BackendParams],
    passes: str,
    *,
    schedule: str | None = None,
    patterns: str | None = None,
    printed: str = "",
) -> None:
    """See ``Backend``. Raise ActionFailed for patterns, which ``mlir-opt`` cannot read."""
    if patterns is not None:
        raise ActionFailed("PDL patterns need MLIR's Python bindings; mlir-opt applies none")
    if not Path(action.inputs["ir"]).read_bytes().strip():
        raise ActionFailed("the IR is empty")
    printing = []
    if printed:
        if programs.before("mlir-opt", _PRINTS_FILES):
            raise ActionFailed(f"mlir-opt prints the IR after each pass into files from LLVM {_PRINTS_FILES} on")
        printing = ["--mlir-print-ir-after-all", f"--mlir-print-ir-tree-dir={printed}"]
    passes, source, target = with_schedule(passes, schedule), action.inputs["ir"], action.outputs["ir"]
    contract = action.params.get("contract")
    if contract is None:
        _optimise(source, passes, target, *printing)
        return
    said = _optimise(source, passes, target, *printing, counting=True)
    kinds.hold(contract, read_text(target, "the IR"), InspectedFile(source, passes, target, said))


def with_schedule(passes: str, schedule: str | None) -> str:
    """Return a pipeline that first loads the sequences of a file, if there is one, for ``transform-interpreter``."""
    return f"transform-preload-library{{transform-library-paths={schedule}}},{passes}" if schedule else passes


def _optimise(source: str, passes: str, target: str, *more: str, counting: bool = False, recorded: bool = True) -> str:
    """Run ``mlir-opt`` and return what it prints; ``counting``: how many of each operation there are, after the passes."""
    words, anchored = [source, *more], not programs.before("mlir-opt", ANCHORED)
    option = [pipeline_option(passes, anchored=anchored)] if passes else []
    counted = option
    if counting and not programs.before("mlir-opt", _COUNTING):
        counted = [pipeline_option(f"{passes},{_COUNT}".lstrip(","), anchored=anchored)]
    failure = "the passes failed" if passes else "the file does not parse"
    try:
        shown = [*words, *option] if recorded else False
        return programs.call("mlir-opt", [*words, *counted], output=target, failure=failure, recorded=shown)
    except ActionFailed as error:
        if passes:
            # Another release may have written what this one cannot read: then no pass has failed.
            programs.execute("mlir-opt", [source, "-o", os.devnull], failure="the IR does not parse", recorded=False)
        reason = reasons.by_text(error.diagnostics) if passes else ""
        # Without an operation it is, for example, a schedule that does not parse.
        raise ActionFailed(reason if "'" in reason else error.reason, diagnostics=error.diagnostics) from None


@dataclass(frozen=True)
class InspectedFile:
    """See ``kinds.Inspected``: a file that ``mlir-opt`` wrote from a source by passes, and what it printed."""

    source: str
    passes: str
    target: str
    said: str

    def operations(self) -> Mapping[str, int] | None:
        found = _COUNTS.search(self.said)
        return json.loads(found[0]) if found else None

    def located(self) -> str:
        written = "located.mlir"
        _optimise(self.source, self.passes, written, _GENERIC, *_LOCATED, recorded=False)
        return read_text(written, "the IR")

    def after(self, passes: str) -> str:
        written = "canonical.mlir"
        _optimise(self.target, passes, written, recorded=False)
        return read_text(written, "the IR")

    def has_dialect(self, name: str) -> bool:
        said = programs.execute("mlir-opt", ["--show-dialects"], recorded=False)
        return re.search(rf"\b{re.escape(name)}\b", said) is not None


def hold_file(contract: Contract, path: str, verb: str) -> None:
    """Hold the IR of a file against a contract; a file that does not parse is not checked."""
    text = "emitted.mlir"
    try:
        said = _optimise(path, "", text, counting=True, recorded=False)
    except ActionFailed:
        return
    kinds.hold(contract, read_text(text, "the IR"), InspectedFile(path, "", text, said), verb)


def pipeline_option(passes: str, *, anchored: bool = True) -> str:
    """Return the option of ``mlir-opt`` that runs passes on a module. ``anchored``: the release wants the module's name."""
    return f"--pass-pipeline=builtin.module({passes})" if anchored else f"--pass-pipeline={passes}"


def compile_object(action: Action[StepParams], level: int, target: str) -> None:
    """See ``Backend``. Without ``cpu`` the code is for a level that every machine of the architecture has.

    With ``fp-contract`` ``off``, the default, a fused multiply-add is made only where the IR has one.
    """
    parameters = action.params.get("parameters", {})
    contraction = parameters.get("fp-contract", "off")
    if contraction not in _CONTRACTION:
        raise ActionFailed(f"fp-contract is '{contraction}'; expected one of {', '.join(_CONTRACTION)}")
    outputs = {"translated": "kernel.ll", "optimised": "optimised.ll", **action.outputs}
    strict = not programs.before("llc", CONTRACTS_MARKED_ONLY)
    translate, optimise, *generate = object_lines(
        action.inputs["ir"], target, level, parameters, outputs, contracts_marked_only=strict
    )
    _call(translate, "the translation to LLVM IR failed")
    if not _DEFINED.search(read_text(outputs["translated"], "the LLVM IR")):
        raise interface.without_entry()
    said = _call(optimise, "LLVM's optimiser failed")
    # LLVM only warns, and ignores the unknown name.
    if ignored := _IGNORED.search(said):
        raise ActionFailed(f"LLVM's optimiser failed: {ignored[0]}", diagnostics=said)
    for line in generate:
        _call(line, "code generation failed")


def _call(line: Sequence[str], failure: str) -> str:
    """Run a command line that ends with ``-o`` and its output."""
    program, *words, _, output = line
    return programs.call(program, words, output=output, failure=failure)


def object_lines(
    ir: str,
    target: str,
    level: int,
    parameters: Mapping[str, Value],
    outputs: Mapping[str, str],
    *,
    contracts_marked_only: bool,
) -> list[list[str]]:
    """Return the command lines that compile the LLVM dialect to an object: translate, optimise, generate code.

    ``outputs``: the files ``translated`` and ``optimised``, and optionally ``assembly``, with a line of its own.
    ``contracts_marked_only``: the release's ``llc`` contracts only what an operation itself allows.
    """
    machine = _machine(parameters)
    contracted = [] if contracts_marked_only else ["-fp-contract=off"]
    if parameters.get("fp-contract", "off") == "fast":
        contracted = ["-fp-contract=fast"]
    # Nothing renames the symbols of WebAssembly's objects before they are linked: no function but the entry point is visible.
    hidden = ["-internalize-public-api-list=" + interface.ENTRY, f"-passes=internalize,default<O{level}>"]
    levels = hidden if machine[0].startswith("-mtriple=wasm") else [f"-O{level}"]
    abi = [f"-target-abi={parameters['abi']}"] if parameters.get("abi") else []
    generate = ["llc", f"-O{level}", *machine, *contracted, *abi, "-relocation-model=pic"]
    translated, optimised = outputs["translated"], outputs["optimised"]
    lines = [
        ["mlir-translate", "--mlir-to-llvmir", ir, "-o", translated],
        ["opt", *levels, *machine, translated, "-S", "-o", optimised],
        [*generate, "-filetype=obj", optimised, "-o", target],
    ]
    if "assembly" in outputs:
        lines.append([*generate, "-filetype=asm", optimised, "-o", outputs["assembly"]])
    return lines


def uncontracted() -> list[str]:
    """Return the option against contraction; from 24 on ``llc`` contracts only what an operation itself allows."""
    return ["-fp-contract=off"] if programs.before("llc", CONTRACTS_MARKED_ONLY) else []


def _machine(parameters: Mapping[str, Value]) -> list[str]:
    """Return the options of ``opt`` and ``llc`` that describe the machine."""
    triple = parameters.get("triple") or f"{os.uname().machine}-unknown-linux-musl"
    cpu = parameters.get("cpu") or _BASELINE.get(str(triple).partition("-")[0], "generic")
    features = parameters.get("features")
    return [f"-mtriple={triple}", f"-mcpu={cpu}", *([f"-mattr={features}"] if features else [])]


def take_in(action: Action[BackendParams]) -> tuple[Sequence[Written], Sequence[Written]]:
    """See ``Backend``."""
    _optimise(action.inputs["source"], "", action.outputs["out"])
    # In the generic form every operation spells its attributes the same way, whatever its syntax in this release.
    _optimise(action.inputs["source"], "", "generic.mlir", _GENERIC)
    return signature(read_text("generic.mlir", "the IR"))


def printed(action: Action[BackendParams], names: Mapping[str, str]) -> list[Printed]:
    """See ``Backend``."""
    # Without aliases, which only a parser of MLIR resolves.
    generic = (_GENERIC, "--mlir-print-local-scope")
    return [printed_forms(_text(action, name, *generic), _text(action, name)) for name in names]


def _text(action: Action[BackendParams], name: str, *form: str) -> str:
    target = f"{name}{len(form)}.mlir"
    _optimise(action.inputs[name], "", target, *form)
    return read_text(target, "the IR").rstrip("\n") + "\n"
