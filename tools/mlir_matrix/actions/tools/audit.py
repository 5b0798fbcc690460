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
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mlir_matrix.actions.contract import Action, Role, write_json
from mlir_matrix.actions.mutation.output_mutations import MUTATIONS, Planting
from mlir_matrix.actions.numerics import dtypes
from mlir_matrix.actions.numerics.census import plain
from mlir_matrix.actions.numerics.criteria import Criteria
from mlir_matrix.actions.numerics.dtypes import ROUNDED, Array
from mlir_matrix.actions.numerics.formats import COMPLEX
from mlir_matrix.actions.params import AuditParams
from mlir_matrix.actions.params import JudgedOutput as Spec
from mlir_matrix.actions.runtime.prepared import EXPECTED, INTERFACE, OWN, RESULTS, of_draw
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
    if spec["dtype"] in ROUNDED:
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
        inputs = action.inputs
        if "bounds" in action.params:
            bundles = {name: inputs[of_draw(name, draw)] for name in (INTERFACE, EXPECTED)}
            names = {Role.ACTUAL: of_draw(RESULTS, draw), Role.SOUND: of_draw(Role.SOUND, draw)}
            results = {role: inputs[name] for role, name in names.items() if name in inputs}
            opened = Action(params=action.params, inputs=bundles, outputs={})
            self.specs, self._files = judge.of_program(opened, results, Path(f"opened-{draw}"))
            for spec in self.specs:
                if spec["atol_text"] == OWN:
                    # The kind of layer: derived or empirical.
                    spec["layer"] += f", {spec['rationale'].partition(':')[0]}"
            self._judged: tuple[Role, ...] = (Role.ACTUAL, Role.EXPECTED, Role.BOUND)
        else:
            self.specs, self._judged = action.params["outputs"], (Role.ACTUAL, Role.EXPECTED)
            self._files = {role.of(name): path for role in Role for name, path in role.among(inputs, draw).items()}

    def load(self, role: Role, name: str) -> Array:
        return dtypes.load_npy(self._files[role.of(name)])

    def files(self, other: Mapping[str, str] | None = None) -> dict[str, str]:
        """Return the files that the judge reads; ``other`` replaces outputs of the kernel, by name."""
        found = {role.of(name): path for role in self._judged for name, path in role.among(self._files).items()}
        found |= {Role.BOUND.of(name): path for name, path in Role.DERIVED.among(self._files).items()}
        return found | {Role.ACTUAL.of(name): path for name, path in (other or {}).items()}

    def criteria(self, spec: Spec) -> Criteria:
        """Return the criteria by which the judge compares an output."""
        return judge.own_criteria(judge.criteria_of(spec), spec, self.files())

    def bound(self, spec: Spec) -> Array:
        """Return the bound that a mutant must exceed to matter."""
        if Role.SOUND.of(spec["name"]) not in self._files:
            return self.load(Role.BOUND, spec["name"])
        expected, sound = self.load(Role.EXPECTED, spec["name"]), self.load(Role.SOUND, spec["name"])
        if spec["dtype"] not in ROUNDED:
            return np.zeros(expected.shape)
        criteria = self.criteria(spec)
        with np.errstate(all="ignore"):
            plain = criteria.atol + criteria.rtol * np.abs(expected)
            own = plain if criteria.bounds is None else criteria.bounds.reshape(expected.shape)
            off = _float_error(dtypes.decode(sound, spec["dtype"]), expected)
        return own if self._allowed else np.copysign(np.where(off <= plain, plain, np.inf), own)

    def worst(self) -> Effect:
        effects = [
            effect(spec, self.load(Role.ACTUAL, spec["name"]), self.load(Role.EXPECTED, spec["name"]), self.bound(spec))
            for spec in self.specs
        ]
        return max(effects, key=lambda each: each.share)


def _kernels(action: Action[AuditParams]) -> Iterator[dict[str, object]]:
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


def _plant(draw: _Draw, worst: Effect, verdict: dict[str, object] | None, *, where: str) -> dict[str, object]:
    """Describe a mutant; a missed one with its effect in full."""
    spec = next(spec for spec in draw.specs if spec["name"] == worst.output)
    plant: dict[str, object] = {"draw": draw.number, "matters": worst.share > 1, "layer": spec["layer"], "where": where}
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


def _outputs(action: Action[AuditParams]) -> Iterator[dict[str, object]]:
    """Yield every mistake in every output of every draw; the other outputs stay unchanged."""
    draws = [_Draw(action, number) for number in action.params["draws"]]
    failures = _failures(action)
    draws = [draw for draw in draws if str(draw.number) not in failures]
    for at, draw in enumerate(draws):
        for spec in draw.specs:
            # The draw before the first one is the last one.
            other = draws[at - 1].load(Role.ACTUAL, spec["name"]) if len(draws) > 1 else None
            stored = draw.load(Role.ACTUAL, spec["name"])
            planting = Planting(
                stored=dtypes.parts(stored),
                dtype=COMPLEX.get(spec["dtype"], spec["dtype"]),
                draw=draw.number,
                other=None if other is None else dtypes.parts(other),
            )
            expected, bound = draw.load(Role.EXPECTED, spec["name"]), draw.bound(spec)
            for name in action.params["mutations"]:
                for where, planted in MUTATIONS[name](planting):
                    mutant = planted.view(stored.dtype).reshape(stored.shape)
                    worst = effect(spec, mutant, expected, bound)
                    verdict = _judge(draw, spec["name"], mutant) if worst.share > 1 else None
                    place = f"{spec['name']}, {where}" if len(draw.specs) > 1 else where
                    # A mutation without effect on these numbers was not planted.
                    if mutant.tobytes() != stored.tobytes():
                        yield {"mutation": name} | _plant(draw, worst, verdict, where=place)


def _judge(draw: _Draw, name: str, array: Array) -> dict[str, object]:
    """Return the verdict on a draw's outputs, with another array for one of them."""
    path = "mutant.npy"
    dtypes.save_npy(path, array)
    try:
        return judge.judge(draw.specs, draw.files({name: path}))
    finally:
        os.unlink(path)


def _trivial(action: Action[AuditParams]) -> Iterator[dict[str, object]]:
    """Yield one mutant for each trivial output that passes in a draw, each output by itself.

    Skip an output if the workload says why a trivial result is right.
    """
    draws = [_Draw(action, number) for number in action.params["draws"]]
    for at, draw in enumerate(draws):
        arguments = {f"the input {name}": draw.load(Role.ARGUMENT, name) for name in action.params["arguments"]}
        for spec in (each for each in draw.specs if "weak_reason" not in each):
            others = dict(arguments)
            if len(draws) > 1:
                stored = draws[at - 1].load(Role.EXPECTED, spec["name"])
                others["what is right for other inputs"] = (
                    dtypes.rounded(stored, spec["dtype"]) if spec["dtype"] in ROUNDED else stored
                )
            for name in judge.weak(spec, draw.load(Role.EXPECTED, spec["name"]), draw.criteria(spec), others):
                yield {"draw": draw.number, "output": f"{name} as {spec['name']}" if len(draw.specs) > 1 else name}


_KINDS: Mapping[str, Callable[[Action[AuditParams]], Iterator[dict[str, object]]]] = {
    "mutant": _kernels,
    "allowed": _kernels,
    "outputs": _outputs,
    "trivial": _trivial,
}
