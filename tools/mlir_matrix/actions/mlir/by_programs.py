"""The backend of a release's programs: ``mlir-opt``, ``mlir-translate``, ``opt`` and ``llc``."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from mlir_matrix.actions.contract import Action, ActionFailed, read_text
from mlir_matrix.actions.mlir import interface, reasons
from mlir_matrix.actions.mlir.backend import Printed
from mlir_matrix.actions.mlir.generic_form import Written, signature
from mlir_matrix.actions.params import BackendParams, StepParams, Value
from mlir_matrix.actions.runtime import programs

#: From this release on a pipeline names the operation that it is anchored to; before, that was always the module.
_ANCHORED = 16
#: The second level of x86-64 has SSE 4.1, which rounds numbers: without it, code generators differ in more than speed.
_BASELINE = {"x86_64": "x86-64-v2"}
_STRICT = 24
_IGNORED = re.compile(r"'[^'\n]*' is not a recognized (?:feature|processor) for this target")
_CONTRACTION = ("off", "fast")
_GENERIC = "--mlir-print-op-generic"
_DEFINED = re.compile(rf"^define .*@{interface.ENTRY}\(", re.MULTILINE)


def preload() -> None:
    """Import nothing, because each action starts its own programs."""


def transform(
    action: Action[BackendParams], passes: str, *, schedule: str | None = None, patterns: str | None = None
) -> None:
    """See ``Backend``. Raise ActionFailed for patterns, which ``mlir-opt`` cannot read."""
    if patterns is not None:
        raise ActionFailed("PDL patterns need MLIR's Python bindings; mlir-opt applies none")
    if schedule is not None:
        passes = f"transform-preload-library{{transform-library-paths={schedule}}},{passes}"
    if not Path(action.inputs["ir"]).read_bytes().strip():
        raise ActionFailed("the IR is empty")
    _optimise(action.inputs["ir"], passes, action.outputs["ir"])


def _optimise(source: str, passes: str, target: str, *more: str) -> None:
    words = [source, *more]
    if passes:
        words.append(f"--pass-pipeline={anchored(passes)}")
    failure = "the passes failed" if passes else "the file does not parse"
    try:
        programs.call("mlir-opt", words, output=target, failure=failure)
    except ActionFailed as error:
        if passes:
            # Another release may have written what this one cannot read: then no pass has failed.
            programs.execute("mlir-opt", [source, "-o", os.devnull], failure="the IR does not parse", recorded=False)
        reason = reasons.by_text(error.diagnostics) if passes else ""
        # Without an operation it is, for example, a schedule that does not parse.
        raise ActionFailed(reason if "'" in reason else error.reason, diagnostics=error.diagnostics) from None


def anchored(passes: str) -> str:
    """Return the pipeline as the release's ``--pass-pipeline`` takes it."""
    return passes if programs.before("mlir-opt", _ANCHORED) else f"builtin.module({passes})"


def compile_object(action: Action[StepParams], level: int, target: str) -> None:
    """See ``Backend``. Without ``cpu`` the code is for a level that every machine of the architecture has.

    With ``fp-contract`` ``off``, the default, a fused multiply-add is made only where the IR has one.
    """
    parameters = action.params.get("parameters", {})
    machine, contraction = _machine(parameters), parameters.get("fp-contract", "off")
    if contraction not in _CONTRACTION:
        raise ActionFailed(f"fp-contract is '{contraction}'; expected one of {', '.join(_CONTRACTION)}")
    contracted = ["-fp-contract=fast"] if contraction == "fast" else uncontracted()
    abi = parameters.get("abi")
    translated, optimised = (
        action.outputs.get("translated", "kernel.ll"),
        action.outputs.get("optimised", "optimised.ll"),
    )
    words = ["--mlir-to-llvmir", action.inputs["ir"]]
    programs.call("mlir-translate", words, output=translated, failure="the translation to LLVM IR failed")
    if not _DEFINED.search(read_text(translated, "the LLVM IR")):
        raise interface.without_entry()
    # Nothing renames the symbols of WebAssembly's objects before they are linked: no function but the entry point is visible.
    hidden = ["-internalize-public-api-list=" + interface.ENTRY, f"-passes=internalize,default<O{level}>"]
    levels = hidden if machine[0].startswith("-mtriple=wasm") else [f"-O{level}"]
    words = [*levels, *machine, translated, "-S"]
    said = programs.call("opt", words, output=optimised, failure="LLVM's optimiser failed")
    # LLVM only warns, and ignores the unknown name.
    if ignored := _IGNORED.search(said):
        raise ActionFailed(f"LLVM's optimiser failed: {ignored[0]}", diagnostics=said)
    words = [f"-O{level}", *machine, *contracted, *([f"-target-abi={abi}"] if abi else []), "-relocation-model=pic"]
    for form, output in (("obj", target), ("asm", action.outputs.get("assembly", ""))):
        if output:
            programs.call(
                "llc", [*words, f"-filetype={form}", optimised], output=output, failure="code generation failed"
            )


def uncontracted() -> list[str]:
    """Return the option against contraction; from 24 on ``llc`` contracts only what an operation itself allows."""
    return ["-fp-contract=off"] if programs.before("llc", _STRICT) else []


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
    return [Printed(_text(action, name, _GENERIC), _text(action, name)) for name in names]


def _text(action: Action[BackendParams], name: str, *form: str) -> str:
    target = f"{name}{len(form)}.mlir"
    _optimise(action.inputs[name], "", target, *form)
    return read_text(target, "the IR").rstrip("\n") + "\n"
