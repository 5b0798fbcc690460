"""Calibrate tolerances: plan and run tests on many draws of their inputs, and propose bounds for the layers that decide them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mlir_matrix.actions.outcomes import Outcome
from mlir_matrix.actions.runtime.prepared import OWN
from mlir_matrix.base.errors import UsageError
from mlir_matrix.base.text import counted, patch
from mlir_matrix.catalog.catalog import Catalog, LocatedLayer
from mlir_matrix.catalog.load import TOLERANCES
from mlir_matrix.catalog.models.base import FLOATS, Layer
from mlir_matrix.catalog.pins import Pins
from mlir_matrix.catalog.yaml_reader import read_text
from mlir_matrix.environments.session import Session
from mlir_matrix.execute.action_cache import ActionCache
from mlir_matrix.execute.job import Done
from mlir_matrix.execute.run_graph import run_graph
from mlir_matrix.expand.expansion import Test
from mlir_matrix.expand.tolerances import Resolved, ToleranceResolver
from mlir_matrix.golden.gumbel import CONFIDENCE, ErrorObservation, LayerCalibration, calibrate, usual_gap
from mlir_matrix.golden.layer_patch import CALIBRATED, LayerProposal, edited, scaled
from mlir_matrix.plan.graph import Graph, Produced
from mlir_matrix.plan.planner import Planner
from mlir_matrix.plan.programs import has_draws, is_prepared
from mlir_matrix.plan.properties import Tolerate
from mlir_matrix.plan.references import add_expected
from mlir_matrix.plan.request import Limits

if TYPE_CHECKING:
    from mlir_matrix.golden.documents import CalibratedFailure, CalibratedLayer, NotCalibrated
    from mlir_matrix.golden.documents import Calibration as CalibrationDocument

#: Outcomes that say nothing about the code under test.
_NOT_RUN = (Outcome.SKIPPED, Outcome.INFRA_ERROR)


class Calibrator:
    """Tests, planned on many draws of their inputs."""

    def __init__(self, current: Session, tests: Iterable[Test], draws: int) -> None:
        """Raise UsageError if no test has bounds to calibrate."""
        self._current, self._draws = current, draws
        tolerances = ToleranceResolver(current.catalog)
        tests = list(tests)
        runnable = [test for test in tests if test.outcome is None and test.executes]
        #: By test and output, the bounds other than 0.
        self._bounds: dict[str, dict[str, Resolved]] = {}
        exact = set()
        #: Tests of programs with only one set of inputs: by identifier, why they are left out.
        self._fixed: dict[str, str] = {}
        for test in runnable:
            workload = current.catalog.workloads[test.workload]
            if is_prepared(current.catalog, workload):
                # Outputs that only the program knows are named by their dtype.
                self._bounds[test.id] = {dtype: tolerances.of(test, dtype) for dtype in sorted(FLOATS)}
                if not has_draws(current.catalog, workload):
                    self._fixed[test.id] = (
                        f"a program in the form {workload.document.source} has a single set of inputs"
                    )
                continue
            outputs = workload.document.outputs
            resolved = {name: tolerances.of(test, name) for name, each in outputs.items() if each.compare != "exact"}
            self._bounds[test.id] = {name: bound for name, bound in resolved.items() if bound.atol or bound.rtol}
            exact |= {bound.location for bound in resolved.values() if not (bound.atol or bound.rtol)}
        self._exact = sorted(exact)
        self._expected = [test.id for test in runnable if test.expectation is not None]
        usable = [test for test in runnable if self._bounds[test.id] and test.expectation is None]
        self.tests = [test for test in usable if test.id not in self._fixed]
        if not self.tests:
            whys = [*self._fixed.values(), *(test.without_outputs for test in tests if test.without_outputs)]
            why = whys[0] if whys else "no test that can run, and is expected to pass, has bounds other than 0"
            raise UsageError(f"nothing to calibrate: {why}")
        self.graph, self._planned = plan_draws(
            current.catalog, self.tests, tolerances.of, pins=current.pins, draws=draws
        )

    def run(self, limits: Limits, *, wanted: float, pins: Mapping[str, str]) -> CalibrationDocument:
        """Run all draws. Propose bounds under which correct runs fail at most at the rate ``wanted``."""
        done = run_graph(self._current, self.graph, limits=limits)
        observations, failures = self._gather(done)
        failed = [each for each in failures if each["outcome"] not in _NOT_RUN]
        layers = list(self._layers(calibrate(observations, wanted=wanted), failed))
        not_run: list[NotCalibrated] = [{"test": test, "reason": why} for test, why in self._fixed.items()]
        for each in failures:
            if each["outcome"] in _NOT_RUN:
                not_run.append({"test": each["test"], "reason": f"{each['outcome']}: {each['reason']}"})
        document: CalibrationDocument = {
            "schema": "mlir-matrix/calibration/v1",
            "summary": {
                "tests": len(self.tests),
                "failed": len(failed),
                "layers": len(layers),
                "proposed": sum(layer["proposed"] is not None for layer in layers),
            },
            "draws": self._draws,
            "false_alarm": wanted,
            "confidence": CONFIDENCE,
            "targets": sorted({test.target for test in self.tests}),
            "pins": dict(pins),
            "tests": len(self.tests),
            "executed": sum(each.executed for each in done.values()),
            "layers": layers,
            "failed": failed,
            "exact": self._exact,
            "expected_to_fail": self._expected,
            "not_run": not_run,
            "patch": "",
        }
        document["patch"] = self._patch(document)
        return document

    def _gather(self, done: Mapping[str, Done]) -> tuple[list[ErrorObservation], list[CalibratedFailure]]:
        """Read the verdicts. A test with a failed draw gives no observations, because its other draws would bias the result."""
        store = ActionCache(self._current.home.actions)
        observations: list[ErrorObservation] = []
        failures: dict[str, CalibratedFailure] = {}
        for planned in self._planned:
            result, test = done[planned.verdict].result, planned.test.id
            verdict: Mapping[str, Any] = result.outcome
            if result.ok:
                verdict = json.loads(store.read_blob(result.outputs["verdict"]))
            if verdict["outcome"] != Outcome.PASS:
                failure: CalibratedFailure = {
                    "test": test,
                    "draws": [],
                    "outcome": verdict["outcome"],
                    "reason": verdict["reason"],
                }
                failures.setdefault(test, failure)["draws"].append(planned.draw)
                continue
            for output in verdict["outputs"]:
                name = output["name"]
                if bound := self._bounds[test].get(name) or self._bounds[test].get(output["dtype"]):
                    used, layer = float(output["error_used"]), bound.location
                    if output["atol_text"] == OWN:
                        layer = f"{layer}, {output['rationale'].partition(':')[0]}"
                    self._bounds[test][name] = bound
                    observations.append(
                        ErrorObservation(test=test, output=name, layer=layer, draw=planned.draw, used=used)
                    )
        return [each for each in observations if each.test not in failures], list(failures.values())

    def _layers(
        self, found: Iterable[LayerCalibration], failures: Sequence[CalibratedFailure]
    ) -> Iterator[CalibratedLayer]:
        mismatches: dict[str, list[str]] = {}
        for each in failures:
            if each["outcome"] == Outcome.MISMATCH:
                for layer in {bound.location for bound in self._bounds[each["test"]].values()}:
                    mismatches.setdefault(layer, []).append(each["test"])
        for calibration in sorted(found, key=lambda each: each.layer):
            wrong = mismatches.get(calibration.layer)
            why_not = f"{counted(len(wrong), 'test')} that it decides gave a mismatch, e.g. {wrong[0]}" if wrong else ""
            bound = self._bounds[calibration.worst.tests[0]][calibration.worst.output]
            yield calibrated_layer(calibration, bound, why_not or calibration.why_not)

    def _patch(self, document: CalibrationDocument) -> str:
        """Return all proposals as one patch, file by file."""
        located = {bound.location: bound.layer for bounds in self._bounds.values() for bound in bounds.values()}
        files: dict[str, list[tuple[LocatedLayer[Layer], LayerProposal]]] = {}
        for row in document["layers"]:
            if row["proposed"]:
                layer = located[row["layer"]]
                proposal = LayerProposal(index=layer.index, bounds=row["proposed"], sentence=_sentence(row, document))
                files.setdefault(layer.source.file, []).append((layer, proposal))
        parts = []
        for shown, proposals in sorted(files.items()):
            layer = proposals[0][0]
            root = self._current.catalog.roots[layer.root]
            path = "/".join(("golden", *([layer.workload] if layer.workload else []), TOLERANCES))
            text = read_text(root / path, shown)
            # Git ignores text before the changes of a file. This line tells the user where to apply them.
            parts.append(f"In the catalog {root}:\n" if layer.root else "")
            parts.append(patch(path, text, edited(text, [each for _, each in proposals])))
        return "".join(parts)


def calibrated_layer(found: LayerCalibration, bound: Resolved, why_not: str) -> CalibratedLayer:
    """Return the entry of a layer, with bounds that fit its runs; ``why_not``: why none are proposed."""
    bounds = {key: str(getattr(bound.layer.document, key)) for key in ("atol", "rtol")}
    if found.layer.startswith(f"{bound.location}, "):
        bounds, why_not = (
            {},
            "each element has its own bound, computed with the expected output: no file has it, so none is patched",
        )
    proposed: dict[str, str] = {}
    factor = None
    if bound.max_ulp is not None:
        why_not = why_not or "its max_ulp decides, too: shares are of whichever bound leaves more room"
    if not why_not and found.factor is not None:
        wider = {key: scaled(text, found.factor) for key, text in bounds.items() if getattr(bound, key)}
        proposed = {key: text for key, (text, _) in wider.items()}
        # Each bound is rounded up separately, so take the smallest factor.
        factor = min(ratio for _, ratio in wider.values())
        if proposed.items() <= bounds.items():
            proposed, factor, why_not = {}, None, "its bounds need no change"
    fitted = found.worst.fitted
    return {
        "layer": found.layer,
        "tests": found.tests,
        "runs": found.runs,
        "distinct_runs": len(found.values),
        "largest": found.values[-1],
        "p50": found.share(0.5),
        "p99": found.share(0.99),
        "worst_test": found.worst.tests[0],
        "fit": None
        if fitted is None
        else {
            "location": fitted.location,
            "scale": fitted.scale,
            "size": fitted.size,
            "gap": fitted.gap(found.worst.values),
            "usual_gap": usual_gap(fitted.size),
        },
        "rate_now": found.rate(1.0),
        "rate_at_most": found.at_most,
        "bounds": bounds,
        "proposed": proposed or None,
        "factor": factor,
        "rate_proposed": factor and found.rate(factor),
        "why_not": why_not or None,
    }


def _sentence(row: CalibratedLayer, document: CalibrationDocument) -> str:
    """Return the sentence about the calibration of a layer's bounds, for its rationale."""
    where = ", ".join(document["targets"])
    pins = ", ".join(f"{name} {release}" for name, release in document["pins"].items()) or "known-good pins"
    was = ", ".join(f"{key} {bound}" for key, bound in row["bounds"].items() if key in (row["proposed"] or ()))
    return (
        f"{CALIBRATED}{document['draws']} draws of {counted(row['tests'], 'test')} on {where} ({pins}): the largest error took "
        f"{row['largest']:.2g} of {was}. A Gumbel distribution of the largest errors, fitted to those of the worst test, has "
        f"false alarms in at most {document['false_alarm']:.0e} of runs beyond these bounds, with {CONFIDENCE:.0%} confidence."
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Draw:
    """A test on one draw of its inputs, and the action that gives the verdict."""

    test: Test
    draw: int
    verdict: str


def plan_draws(
    catalog: Catalog, tests: Iterable[Test], tolerate: Tolerate, *, pins: Pins, draws: int
) -> tuple[Graph, list[Draw]]:
    """Plan every test ``draws`` times. Kernels are compiled once, and references computed once for each draw.

    Draw 0 is that of the goldens, so its runs are the same actions as in ``matrix run``.
    """
    planner = Planner(catalog, tolerate, pins)
    numpy = pins.reference("numpy")
    references: dict[tuple[str, int], dict[str, Produced]] = {}
    planned = []
    for test in tests:
        workload = catalog.workloads[test.workload]
        kernel = planner.chains.compile(test)
        for draw in range(draws):
            if is_prepared(catalog, workload):
                ran = planner.chains.run(test, kernel, draw=draw)
                planned.append(Draw(test=test, draw=draw, verdict=planner.judge_program(test, ran, draw)))
                continue
            key = (workload.name, draw)
            if key not in references:
                references[key] = add_expected(planner.graph, catalog, workload, numpy, draw=draw)
            verdict = planner.judge(test, planner.chains.run(test, kernel, draw=draw), references[key])
            planned.append(Draw(test=test, draw=draw, verdict=verdict))
    return planner.graph, planned
