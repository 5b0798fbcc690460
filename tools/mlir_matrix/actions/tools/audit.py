"""Judge mutants: decide whether each one matters, and whether the judge catches it under the winning tolerances.

params   ``kind``: ``mutant`` (outputs of a mutated kernel; a failed call is caught), ``allowed`` (outputs of an allowed
         transformation, which are always judged), ``outputs`` (plant ``mutations`` in outputs here) or ``trivial`` (outputs that
         need no program; ``arguments``: the workload's inputs)
inputs   ``actual-DRAW-NAME``, ``expected-DRAW-NAME``, ``bound-DRAW-NAME``; ``failures`` of ``run``, where one action ran all
         draws; ``own-DRAW-NAME``, the bounds of a layer that is derived; for ``trivial`` also ``arg-DRAW-NAME``; for a program
         in a foreign form (``bounds`` in the params) ``interface-DRAW``, ``expected-DRAW`` and two bundles of results,
         ``results-DRAW`` and ``sound-DRAW``: of the kernel, and of the one without a mutation
outputs  ``report``: JSON, ``mutants``: an entry for each mutant

A mutant *matters* if an element's distance from the expected value, in double, exceeds its forward error bound. It also matters if
NaN, infinities or integers differ. The bounds come from the inputs and not from the tolerances (:mod:`forward_error`). A program
in a foreign form has no such bound. There a mutant matters if an element exceeds ``atol + rtol |expected|`` of the winning layer,
and the kernel without a mutation does not.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mlir_matrix.actions.contract import Action, write_json
from mlir_matrix.actions.mutation.output_mutations import MUTATIONS, Planting
from mlir_matrix.actions.numerics import dtypes
from mlir_matrix.actions.numerics.census import plain
from mlir_matrix.actions.numerics.criteria import Criteria
from mlir_matrix.actions.numerics.dtypes import FLOATS, Array
from mlir_matrix.actions.params import AuditParams
from mlir_matrix.actions.params import JudgedOutput as Spec
from mlir_matrix.actions.runtime.prepared import EXPECTED, INTERFACE, OWN, RESULTS
from mlir_matrix.actions.tools import judge


@dataclass(frozen=True, kw_only=True)
class Effect:
    """The element with the largest effect of a mistake: its share of the a-priori bound. A share above 1 matters."""

    output: str
    index: list[int]
    error: float
    bound: float
    share: float


def run(action: Action[AuditParams]) -> None:
    """Write the report. A failed kernel does not fail the action."""
    mutants = list(_KINDS[action.params["kind"]](action))
    write_json(action.outputs["report"], {"mutants": mutants})


def effect(spec: Spec, actual: Array, expected: Array, bound: Array) -> Effect:
    """Return the effect of a mistake on an output: ``actual`` as stored, ``expected`` a golden, ``bound`` in double."""
    if spec["compare"] == "order-free" and expected.ndim:
        order = np.argsort(expected, axis=-1, kind="stable")
        expected, bound = (np.take_along_axis(each, order, axis=-1) for each in (expected, bound))
        actual = np.take_along_axis(
            actual, np.argsort(dtypes.decode(actual, spec["dtype"]), axis=-1, kind="stable"), axis=-1
        )
    if spec["dtype"] in FLOATS:
        values = dtypes.decode(actual, spec["dtype"])
        # A negative bound says that a program in this dtype may overflow.
        error = np.where(np.signbit(bound) & ~np.isfinite(values), 0.0, _float_error(values, expected))
        bound = np.abs(bound)
    else:
        error, bound = dtypes.difference(actual, expected), np.zeros(expected.shape)
    with np.errstate(all="ignore"):
        share = np.where(error == 0, 0.0, np.where(np.isinf(error), np.inf, error / bound))
    worst = int(np.argmax(share))
    return Effect(
        output=spec["name"],
        index=dtypes.index_of(worst, share.shape),
        error=float(error.reshape(-1)[worst]),
        bound=float(bound.reshape(-1)[worst]),
        share=float(share.reshape(-1)[worst]),
    )


def _float_error(actual: Array, expected: Array) -> Array:
    """Return |actual - expected|: 0 for the same infinity or NaN, infinite where only one is."""
    with np.errstate(all="ignore"):
        same = (actual == expected) | (np.isnan(actual) & np.isnan(expected))
        finite = np.isfinite(actual) & np.isfinite(expected)
        return np.where(same, 0.0, np.where(finite, np.abs(actual - expected), np.inf))


class _Draw:
    """The files of one draw."""

    def __init__(self, action: Action[AuditParams], draw: int) -> None:
        self.number = draw
        self._allowed = action.params["kind"] == "allowed"
        inputs, mark = action.inputs, f"-{draw}"
        if "bounds" in action.params:
            bundles = {INTERFACE: inputs[INTERFACE + mark], EXPECTED: inputs[EXPECTED + mark]}
            names = {"actual": RESULTS + mark, "sound": "sound" + mark}
            results = {kind: inputs[name] for kind, name in names.items() if name in inputs}
            opened = Action(params=action.params, inputs=bundles, outputs={})
            self.specs, self._files = judge.of_program(opened, Path(f"opened{mark}"), **results)
            for spec in self.specs:
                if spec["atol_text"] == OWN:
                    # The kind of layer: derived or empirical.
                    spec["layer"] += f", {spec['rationale'].partition(':')[0]}"
            self._judged: tuple[str, ...] = ("actual", "expected", "bound")
        else:
            self.specs, self._judged = action.params["outputs"], ("actual", "expected")
            parts = [name.split("-", 2) for name in inputs]
            self._files = {f"{each[0]}-{each[2]}": inputs["-".join(each)] for each in parts if each[1:2] == [str(draw)]}

    def load(self, kind: str, name: str) -> Array:
        return dtypes.load_npy(self._files[f"{kind}-{name}"])

    def files(self, other: Mapping[str, str] | None = None) -> dict[str, str]:
        """Return the files that the judge reads; ``other`` replaces outputs of the kernel, by name."""
        found = {key: path for key, path in self._files.items() if key.partition("-")[0] in self._judged}
        own = {f"bound-{key[4:]}": path for key, path in self._files.items() if key.startswith("own-")}
        return found | own | {f"actual-{name}": path for name, path in (other or {}).items()}

    def criteria(self, spec: Spec) -> Criteria:
        """Return the criteria by which the judge compares an output."""
        return judge.own_criteria(judge.criteria_of(spec), spec, self.files())

    def bound(self, spec: Spec) -> Array:
        """Return the bound that a mutant must exceed to matter."""
        if f"sound-{spec['name']}" not in self._files:
            return self.load("bound", spec["name"])
        expected, sound = self.load("expected", spec["name"]), self.load("sound", spec["name"])
        if spec["dtype"] not in FLOATS:
            return np.zeros(expected.shape)
        criteria = self.criteria(spec)
        with np.errstate(all="ignore"):
            plain = criteria.atol + criteria.rtol * np.abs(expected)
            own = plain if criteria.bounds is None else criteria.bounds.reshape(expected.shape)
            off = _float_error(dtypes.decode(sound, spec["dtype"]), expected)
        return own if self._allowed else np.copysign(np.where(off <= plain, plain, np.inf), own)

    def worst(self) -> Effect:
        effects = [
            effect(spec, self.load("actual", spec["name"]), self.load("expected", spec["name"]), self.bound(spec))
            for spec in self.specs
        ]
        return max(effects, key=lambda each: each.share)


def _kernels(action: Action[AuditParams]) -> Iterator[dict[str, Any]]:
    """Yield one mutant per draw: the outputs of a kernel."""
    allowed = action.params["kind"] == "allowed"
    failures = _failures(action)
    for number in action.params["draws"]:
        draw = _Draw(action, number)
        if str(number) in failures:
            yield {"draw": number, "matters": True, "caught": True, "failed": failures[str(number)], "layer": ""}
            continue
        worst = draw.worst()
        matters = worst.share > 1
        verdict = judge.judge(draw.specs, draw.files()) if matters or allowed else None
        yield _plant(draw, worst, verdict, where="") | (_measured(verdict) if allowed and verdict else {})


def _failures(action: Action[AuditParams]) -> dict[str, str]:
    """Return, by draw, why the call failed. Without this input every call has succeeded, because a failure ends its action."""
    if "failures" not in action.inputs:
        return {}
    with open(action.inputs["failures"], encoding="utf-8") as file:
        found: dict[str, str] = json.load(file)
    return found


def _plant(draw: _Draw, worst: Effect, verdict: dict[str, Any] | None, *, where: str) -> dict[str, Any]:
    """Describe a mutant; a missed one with its effect in full."""
    spec = next(spec for spec in draw.specs if spec["name"] == worst.output)
    plant: dict[str, Any] = {"draw": draw.number, "matters": worst.share > 1, "layer": spec["layer"], "where": where}
    if verdict is None:
        return plant
    plant["caught"] = verdict["outcome"] != "pass"
    if plant["matters"] and not plant["caught"]:
        plant |= {
            "output": worst.output,
            "index": worst.index,
            "error": plain(worst.error),
            "bound": plain(worst.bound),
        }
        plant |= {"atol": spec["atol_text"], "rtol": spec["rtol_text"]}
    return plant


def _measured(verdict: dict[str, Any]) -> dict[str, Any]:
    """Describe the verdict on a kernel that should pass: the reason, and the share of each bound."""
    used = [[each["layer"], each["error_used"]] for each in verdict["outputs"] if "error_used" in each]
    return {"reason": verdict["reason"], "used": used}


def _outputs(action: Action[AuditParams]) -> Iterator[dict[str, Any]]:
    """Yield every mistake in every output of every draw; the other outputs stay unchanged."""
    draws = [_Draw(action, number) for number in action.params["draws"]]
    failures = _failures(action)
    draws = [draw for draw in draws if str(draw.number) not in failures]
    for at, draw in enumerate(draws):
        for spec in draw.specs:
            # The draw before the first one is the last one.
            other = draws[at - 1].load("actual", spec["name"]) if len(draws) > 1 else None
            planting = Planting(
                stored=draw.load("actual", spec["name"]), dtype=spec["dtype"], draw=draw.number, other=other
            )
            expected, bound = draw.load("expected", spec["name"]), draw.bound(spec)
            for name in action.params["mutations"]:
                for where, mutant in MUTATIONS[name](planting):
                    worst = effect(spec, mutant, expected, bound)
                    verdict = _judge(draw, draw.specs, spec["name"], mutant) if worst.share > 1 else None
                    place = f"{spec['name']}, {where}" if len(draw.specs) > 1 else where
                    # A mutation without effect on these numbers was not planted.
                    if mutant.tobytes() != planting.stored.tobytes():
                        yield {"mutation": name} | _plant(draw, worst, verdict, where=place)


def _judge(draw: _Draw, specs: Sequence[Spec], name: str, array: Array) -> dict[str, Any]:
    """Return the verdict on these outputs, with another array for one of them."""
    path = "mutant.npy"
    dtypes.save_npy(path, array)
    names = {spec["name"] for spec in specs}
    files = {key: file for key, file in draw.files({name: path}).items() if key.partition("-")[2] in names}
    try:
        return judge.judge(list(specs), files)
    finally:
        os.unlink(path)


def _trivial(action: Action[AuditParams]) -> Iterator[dict[str, Any]]:
    """Yield one mutant for each trivial output that passes in a draw, each output by itself.

    Skip an output if the workload says why a trivial result is right.
    """
    draws = [_Draw(action, number) for number in action.params["draws"]]
    for at, draw in enumerate(draws):
        arguments = {f"the input {name}": draw.load("arg", name) for name in action.params["arguments"]}
        for spec in (each for each in draw.specs if "weak_reason" not in each):
            others = dict(arguments)
            if len(draws) > 1:
                stored = draws[at - 1].load("expected", spec["name"])
                others["what is right for other inputs"] = (
                    dtypes.rounded(stored, spec["dtype"]) if spec["dtype"] in FLOATS else stored
                )
            for name in judge.weak(spec, draw.load("expected", spec["name"]), draw.criteria(spec), others):
                yield {"draw": draw.number, "output": f"{name} as {spec['name']}" if len(draw.specs) > 1 else name}


_KINDS: Mapping[str, Callable[[Action[AuditParams]], Iterator[dict[str, Any]]]] = {
    "mutant": _kernels,
    "allowed": _kernels,
    "outputs": _outputs,
    "trivial": _trivial,
}
