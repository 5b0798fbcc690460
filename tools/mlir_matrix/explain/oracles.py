"""Ask oracles about a test: run its workload through independent compilers, and find out who agrees with whom."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from pathlib import Path
from string import ascii_uppercase
from typing import TYPE_CHECKING, Any

from mlir_matrix.actions.contract import Role
from mlir_matrix.actions.outcomes import Outcome
from mlir_matrix.actions.runtime.prepared import INTERFACE
from mlir_matrix.base.errors import UsageError
from mlir_matrix.base.events import Listener, ignore
from mlir_matrix.base.names import test_glob
from mlir_matrix.base.text import counted
from mlir_matrix.catalog.golden_files import is_sketched
from mlir_matrix.environments.scratch import temporary_folder
from mlir_matrix.environments.session import Session
from mlir_matrix.execute.action_cache import ActionCache
from mlir_matrix.expand.expansion import Test
from mlir_matrix.plan.graph import File, Input
from mlir_matrix.plan.planner import PlannedTests
from mlir_matrix.plan.references import add_expected
from mlir_matrix.plan.request import Limits
from mlir_matrix.plan.session import plan_tests, select_tests
from mlir_matrix.results.results import Run
from mlir_matrix.results.run_plan import run_plan

if TYPE_CHECKING:
    from mlir_matrix.actions.params import JudgedOutput
    from mlir_matrix.compare.documents import ComparedOutput
    from mlir_matrix.explain.documents import Conclusion, Oracles, Witness

_TEST, _REFERENCE = "test", "reference"
Files = Mapping[str, str | Path]
#: The outputs of a test with their bounds, and the files of its judge by name: ``actual-NAME``, ``expected-NAME``, ``bound-NAME``.
Judged = tuple[Sequence["JudgedOutput"], Files]


def oracles_of(current: Session, test: Test) -> list[Test]:
    """Return for each pipeline that is an oracle for a test, or leads to one, a test that runs here. Raise UsageError.

    One that is not expected to fail is preferred, then another framework, so that no importer is shared, then the same target.
    """
    if not test.executes or test.tested_property or not test.selected:
        why = test.reason if not test.selected else "only a test that compares outputs with a golden has oracles"
        raise UsageError(f"{test.id}: {why}")
    catalog = current.catalog
    names = [name for each in (catalog.pipelines, catalog.targets) for name in each if each[name].document.oracle]
    if not names:
        raise UsageError("the catalog has no oracle: a pipeline or a target with the key 'oracle' is one")
    found: dict[str, Test] = {}
    able = [each for each in select_tests(current, [f"*/*/*/{test.workload}"]) if each.selected and each.executes]
    able = [each for each in able if each.pipeline != test.pipeline and _why(current, each)]
    broken = _expected_failures(current, able)

    def rank(each: Test) -> tuple[bool, bool, bool]:
        return each.id in broken, each.framework == test.framework, each.target != test.target

    for each in sorted(able, key=rank):
        found.setdefault(each.pipeline, each)
    if not found:
        raise UsageError(f"no oracle takes the workload {test.workload} here; oracles: {', '.join(sorted(names))}")
    return [found[name] for name in sorted(found)]


def _expected_failures(current: Session, tests: Sequence[Test]) -> set[str]:
    """Return those of some tests that any suite expects to fail."""
    rules = (rule for suite in current.catalog.suites.values() for rule in suite.document.expect)
    globs = [test_glob(glob) for rule in rules for glob in rule.tests]
    single = {
        test
        for entry in current.catalog.expectations.values()
        for each in entry.document.expect
        for test in each.identifiers
    }
    return {test.id for test in tests if test.id in single or any(glob.matches(test.id) for glob in globs)}


def _why(current: Session, test: Test) -> str | None:
    """Return why a test is independent; None if it is no oracle."""
    catalog = current.catalog
    return catalog.pipelines[test.pipeline].document.oracle or catalog.targets[test.target].document.oracle


def ask(current: Session, test: Test, oracles: Sequence[Test], limits: Limits, listener: Listener = ignore) -> Oracles:
    """Run a test and its oracles; compare their outputs with each other and with the golden."""
    plan = plan_tests(current, [test, *oracles])
    sketched = _add_sketched(current, plan, test)
    run = run_plan(current, plan, limits=limits, fail_fast=False, listener=listener)
    run.raise_interruption()
    with temporary_folder(current.home) as scratch:
        judged = {
            name: _judged(current, plan, run, each, scratch / name)
            for name, each in zip(_names(len(oracles)), (test, *oracles), strict=True)
        }
        reference = Role.EXPECTED.among(judged[_TEST][1]) | _found(current, run, sketched)
        return _compared(current, run, dict(zip(judged, (test, *oracles), strict=True)), judged, reference)


def _names(oracles: int) -> list[str]:
    """Return what the test and its oracles are called."""
    return [_TEST, *(ascii_uppercase[at] if at < len(ascii_uppercase) else f"O{at}" for at in range(oracles))]


def _compared(
    current: Session, run: Run, tests: Mapping[str, Test], judged: Mapping[str, Judged], reference: Files
) -> Oracles:
    """Compare what a test, its oracles and the golden give; each is judged by its own bounds."""
    from mlir_matrix.compare.agreement import compare_all  # imports NumPy

    specs = judged[_TEST][0]
    files = {name: Role.ACTUAL.among(found) for name, (_, found) in judged.items()} | {_REFERENCE: reference}
    results = {result.id: result for result in run.results}
    witnesses: list[Witness] = []
    for name, test in tests.items():
        result = results[test.id]
        witness: Witness = {"name": name, "test": test.id, "outcome": result.outcome, "reason": result.reason}
        if name == _TEST:
            witnesses += [witness, {"name": _REFERENCE}]
        else:
            witnesses.append({**witness, "oracle": _why(current, test) or ""})
    for witness in witnesses:
        name = witness["name"]
        own = Role.BOUND.among(judged[name][1]) if name in judged else {}
        if why := _unusable(files[name], specs, own, golden=name == _REFERENCE):
            witness["unusable"] = why if name == _REFERENCE or files[name] else witness["reason"]
    usable = [witness["name"] for witness in witnesses if "unusable" not in witness]
    outputs = []
    for number, spec in enumerate(specs):
        output = spec["name"]
        compared = [name for name in usable if name in judged]
        bounds = {name: (judged[name][0][number], judged[name][1].get(Role.BOUND.of(output))) for name in compared}
        outputs.append(compare_all(spec, bounds, {name: files[name][output] for name in usable}, _REFERENCE))
    return _document(tests[_TEST], witnesses, usable, outputs)


def _add_sketched(current: Session, plan: PlannedTests, test: Test) -> Mapping[str, Input]:
    """Return by output the reference of goldens of which a sketch is stored, which is added to the plan."""
    workload = current.catalog.workloads[test.workload]
    if any(is_sketched(workload.document, output) for output in workload.document.outputs.values()):
        return add_expected(plan.graph, current.catalog, workload, current.pins.reference("numpy"))
    return {}


def _found(current: Session, run: Run, wanted: Mapping[str, Input]) -> dict[str, str | Path]:
    """Return the files of inputs, by name, of those that there are."""
    store, found = ActionCache(current.home.actions), dict[str, str | Path]()
    for name, ref in wanted.items():
        if isinstance(ref, File):
            found[name] = current.catalog.roots[ref.root] / ref.path
        elif ref.action in run.done and run.done[ref.action].result.ok:
            found[name] = store.blob_path(run.done[ref.action].result.outputs[ref.output])
    return found


def _judged(current: Session, plan: PlannedTests, run: Run, test: Test, scratch: Path) -> Judged:
    """Return what the judge of a test compares, opened into a folder if its files are bundles of a program."""
    from mlir_matrix.compare.agreement import open_program  # imports NumPy

    judge = plan.graph.actions[plan.verdicts[test.id]]
    files = _found(current, run, judge.inputs)
    params: Any = judge.params
    return open_program(params, files, scratch) if INTERFACE in judge.inputs else (params["outputs"], files)


def _unusable(files: Files, specs: Sequence[JudgedOutput], bounds: Files, *, golden: bool) -> str:
    """Return why the outputs of a witness cannot be compared; empty if they can."""
    from mlir_matrix.compare.agreement import unfit  # imports NumPy

    missing = [spec["name"] for spec in specs if spec["name"] not in files]
    if missing or not specs:
        return f"no output {', '.join(missing)}".rstrip()
    found = [unfit(files[spec["name"]], spec, golden=golden) for spec in specs]
    # A bound is a double, as a golden of floating point is.
    found += [unfit(bounds[spec["name"]], {**spec, "dtype": "f64"}) for spec in specs if spec["name"] in bounds]
    return "; ".join(filter(None, found))


def _document(test: Test, witnesses: list[Witness], usable: Sequence[str], outputs: list[ComparedOutput]) -> Oracles:
    differ = {
        frozenset({pair["one"], pair["other"]}) for output in outputs for pair in output["pairs"] if pair["differ"]
    }

    def agree(one: str, other: str) -> bool:
        return one in usable and other in usable and frozenset({one, other}) not in differ

    oracles = [name for name in usable if name not in (_TEST, _REFERENCE)]
    with_test = [name for name in oracles if agree(name, _TEST)]
    with_reference = [name for name in oracles if agree(name, _REFERENCE)]
    conclusion, sentence = conclude(
        len(oracles),
        with_test=len(with_test),
        with_reference=len(with_reference),
        # The judge decides what a pair of all outputs cannot: a mismatch is never right.
        test_is_right=agree(_TEST, _REFERENCE) and witnesses[0].get("outcome") == Outcome.PASS,
        alike=all(agree(one, other) for one, other in combinations(oracles, 2)),
        missing=[name for name in (_TEST, _REFERENCE) if name not in usable],
    )
    return {
        "schema": "mlir-matrix/oracles/v1", "id": test.id, "conclusion": conclusion, "sentence": sentence,
        "witnesses": witnesses, "outputs": outputs,
        "summary": {"oracles": len(oracles), "with_test": len(with_test), "with_reference": len(with_reference)},
    }  # fmt: skip


def conclude(
    oracles: int,
    *,
    with_test: int,
    with_reference: int,
    test_is_right: bool,
    alike: bool,
    missing: Sequence[str] = (),
) -> tuple[Conclusion, str]:
    """Return what the agreement of witnesses means, and the same in one sentence.

    ``alike``: all oracles agree with each other; ``missing``: the test or the reference, without outputs.
    """
    if not oracles:
        return "undecided", "nothing can be concluded: no oracle gives outputs to compare"
    if missing:
        lacks = f"the {' and the '.join(missing)} {'has' if len(missing) == 1 else 'have'} no outputs to compare"
        confirmed = f"; {_agree(with_reference, oracles)} with the reference" if with_reference else ""
        return "undecided", f"{lacks}{confirmed}"
    for_reference, for_test = (2 * number > oracles for number in (with_reference, with_test))
    if test_is_right and for_reference:
        return "nothing is suspected", f"nothing is suspected: {_agree(with_reference, oracles)} with the reference"
    if not test_is_right and for_reference and not with_test:
        return (
            "test is wrong",
            f"the test is wrong: {_agree(with_reference, oracles)} with the reference, none with the test",
        )
    if not test_is_right and for_test and not with_reference:
        words = f"{_agree(with_test, oracles)} with the test, none with the reference"
        return "reference is suspected", f"the reference is suspected: {words}"
    return "undecided", f"undecided: {_undecided(oracles, with_test, with_reference, test_is_right, alike)}"


def _undecided(oracles: int, with_test: int, with_reference: int, test_is_right: bool, alike: bool) -> str:
    if with_reference or with_test:
        return (
            f"of {counted(oracles, 'oracle')}, {with_reference} agree with the reference and {with_test} with the test"
        )
    if test_is_right:
        return f"the test and the reference agree with each other, but with none of {counted(oracles, 'oracle')}"
    if alike:
        but = " with each other, but" if oracles > 1 else ""
        return f"{_agree(oracles, oracles)}{but} with neither the test nor the reference"
    return "test, reference and oracles all differ from each other"


def _agree(number: int, oracles: int) -> str:
    if oracles == 1:
        return "the only oracle agrees"
    every = "both oracles" if oracles == 2 else f"all {oracles} oracles"
    return f"{every if number == oracles else f'{number} of {oracles} oracles'} agree"
