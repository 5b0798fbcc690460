"""Check workloads, suites and golden files."""

from __future__ import annotations

import keyword
from collections.abc import Iterable, Mapping, Sequence

from mlir_matrix.actions.expr.expression import ExpressionError
from mlir_matrix.actions.expr.formula import GRAMMAR, check_formula
from mlir_matrix.actions.tools.kernel import MAX_POINTERS, MAX_RANK
from mlir_matrix.catalog.catalog import REFERENCE, Entry
from mlir_matrix.catalog.golden_files import SKETCH, WHOLE, GoldenFile
from mlir_matrix.catalog.models.base import Workload
from mlir_matrix.catalog.models.suites import Block, Suite
from mlir_matrix.catalog.yaml_reader import Key
from mlir_matrix.names import SEGMENT_NAMES, PatternError, did_you_mean, printable, test_glob
from mlir_matrix.validation.checker import Checker
from mlir_matrix.validation.properties import check_conflicts, check_properties
from mlir_matrix.validation.toolchains import release_known

_FLOATS = frozenset(("f64", "f32", "f16", "bf16"))
#: The names for each of the four segments of an identifier.
_Names = tuple[Iterable[str], Iterable[str], Iterable[str], Iterable[str]]


def check(checker: Checker) -> None:
    """Check all workloads, suites and goldens."""
    sources = {file for entry in checker.catalog.frameworks.values() for file in entry.document.emits.values()}
    for workload in checker.catalog.workloads.values():
        _workload(checker, workload, sources)
    segments = _segments(checker)
    for suite in checker.catalog.suites.values():
        _suite(checker, suite, segments)
    for file in checker.catalog.golden_files:
        _golden(checker, file)
    _one_form(checker, checker.catalog.golden_files)


def _workload(checker: Checker, workload: Entry[Workload], sources: set[str]) -> None:
    document = workload.document
    if REFERENCE not in workload.files:
        checker.wrong(workload, f"the reference is missing: {REFERENCE} beside this file")
    right = {*sources, REFERENCE, "workload.yaml"}
    folder = workload.source.file.rpartition("/")[0]
    for name in workload.files.keys() - right:
        message = f"is not read: no framework has such a source{did_you_mean(name, right)}"
        checker.problems.add(f"{folder}/{name}", message)
    _dimensions(checker, workload)
    _arity(checker, workload)
    for name, tensor in document.inputs.items():
        try:
            check_formula(tensor.formula, document.dims)
        except ExpressionError as error:
            checker.wrong(workload, printable(str(error), 400), "inputs", name, "formula")
    for name, output in document.outputs.items():
        if output.dtype not in _FLOATS and output.compare == "numeric":
            fix = f"{output.dtype} is compared exactly or order-free, not numerically; write compare: exact"
            checker.wrong(workload, fix, "outputs", name, "compare")
        if output.nan is not None and output.dtype not in _FLOATS:
            checker.wrong(workload, f"{output.dtype} has no NaN; leave 'nan' out", "outputs", name, "nan")
        if f"{name}{WHOLE}".endswith(SKETCH):
            checker.wrong(workload, "an output's name may not end in .sketch: sketches' files do", "outputs", name)
    _absent(checker, workload)


def _arity(checker: Checker, workload: Entry[Workload]) -> None:
    """Check that the driver can pass all inputs and outputs."""
    document = workload.document
    for key, names, limit in (
        ("inputs", list(document.inputs), MAX_POINTERS - 1),
        ("outputs", list(document.outputs), MAX_POINTERS),
    ):
        if len(names) > limit:
            fix = f"{len(names)} {key}; a kernel can have {limit}, so join tensors of one dtype and shape"
            checker.wrong(workload, fix, key, names[limit])


def _dimensions(checker: Checker, workload: Entry[Workload]) -> None:
    """Check that dimensions fit formulas, that shapes use known ones, and that each dynamic one is in an input."""
    document = workload.document
    for name, size in document.dims.items():
        if not name.isidentifier() or keyword.iskeyword(name) or name in GRAMMAR.functions:
            checker.wrong(workload, f"the dimension '{name}' could not be used in a formula", "dims", name)
        if size < 1:
            checker.wrong(workload, f"the dimension '{name}' is {size}; sizes begin at 1", "dims", name)
    for key, tensors in (("inputs", document.inputs), ("outputs", document.outputs)):
        for name, tensor in tensors.items():
            _shape(checker, workload, tensor.shape, key, name, "shape")
    given = {size for tensor in document.inputs.values() for size in tensor.shape}
    for index, name in enumerate(document.dynamic):
        if checker.known(workload, "dimension", name, document.dims, "dynamic", index) and name not in given:
            checker.wrong(workload, f"the dimension '{name}' is in no input's shape", "dynamic", index)


def _shape(checker: Checker, workload: Entry[Workload], shape: Sequence[int | str], *keys: Key) -> None:
    if len(shape) > MAX_RANK:
        checker.wrong(workload, f"{len(shape)} dimensions; a tensor can have {MAX_RANK}", *keys, MAX_RANK)
    for index, size in enumerate(shape):
        if isinstance(size, str):
            checker.known(workload, "dimension", size, workload.document.dims, *keys, index)
        elif size < 1:
            checker.wrong(workload, f"a size of {size}; sizes begin at 1", *keys, index)


def _absent(checker: Checker, workload: Entry[Workload]) -> None:
    """Check that there is no source of a framework that is declared absent."""
    frameworks = checker.catalog.frameworks
    for name in workload.document.absent:
        if not checker.known(workload, "framework", name, frameworks, "absent", name):
            continue
        others = {file for other in frameworks.values() if other.name != name for file in other.document.emits.values()}
        own = set(frameworks[name].document.emits.values()) - others - {REFERENCE}
        for file in sorted(own & workload.files.keys()):
            checker.wrong(workload, f"'{name}' is said to be absent, but {file} is here", "absent", name)


def _segments(checker: Checker) -> tuple[_Names, _Names]:
    """Return the names for each segment of an identifier: of tests that run, and of IR tests."""
    catalog = checker.catalog
    stepped = [name for name, step in catalog.steps.items() if step.cases]
    cases = [case for step in catalog.steps.values() for case in step.cases]
    tests = catalog.frameworks, catalog.pipelines, catalog.targets, catalog.workloads
    return tests, (["mlir"], stepped, ["ir"], cases)


def _suite(checker: Checker, suite: Entry[Suite], segments: tuple[_Names, _Names]) -> None:
    document = suite.document
    if not (document.blocks or document.steps or document.include):
        checker.wrong(suite, "the suite is empty: it has no 'blocks', 'steps' or 'include'")
    for index, block in enumerate(document.blocks):
        _block(checker, suite, block, index)
    _pins(checker, suite)
    for index, pattern in enumerate(document.steps):
        checker.matches(suite.source, "step", pattern, checker.catalog.steps, "steps", index)
    for index, pattern in enumerate(document.include):
        _test_pattern(checker, suite, pattern, segments, "include", index)
    rules = [("exclude", number, rule.tests) for number, rule in enumerate(document.exclude)]
    rules += [("expect", number, rule.tests) for number, rule in enumerate(document.expect)]
    rules += [("properties", number, rule.tests) for number, rule in enumerate(document.properties)]
    for key, number, patterns in rules:
        for index, pattern in enumerate(patterns):
            _test_pattern(checker, suite, pattern, segments, key, number, "tests", index)
    check_properties(checker, suite)
    check_conflicts(checker, suite)
    for index, expectation in enumerate(document.expect):
        if expectation.outcome == "pass":
            message = "every test is expected to pass where nothing else is said"
            checker.wrong(suite, message, "expect", index, "outcome")


def _block(checker: Checker, suite: Entry[Suite], block: Block, index: int) -> None:
    catalog = checker.catalog
    axes: Mapping[str, Iterable[str]] = {
        "framework": catalog.frameworks,
        "pipeline": catalog.pipelines,
        "target": catalog.targets,
        "workload": catalog.workloads,
    }
    for key, patterns_by_axis in (("product", block.product), ("zip", block.zip)):
        for axis, patterns in patterns_by_axis.items():
            if not patterns:
                checker.wrong(suite, f"the axis '{axis}' is empty; leave it out for all", "blocks", index, key, axis)
            for number, pattern in enumerate(patterns):
                checker.matches(suite.source, axis, pattern, axes[axis], "blocks", index, key, axis, number)
    for axis in sorted(block.zip.keys() & block.product.keys()):
        checker.wrong(suite, f"the axis '{axis}' is under 'product' too", "blocks", index, "zip", axis)
    lengths = {axis: len(patterns) for axis, patterns in block.zip.items()}
    if len(set(lengths.values())) > 1:
        shown = ", ".join(f"{axis} has {length}" for axis, length in lengths.items())
        checker.wrong(suite, f"zipped axes need equal lengths: {shown}", "blocks", index, "zip")


def _pins(checker: Checker, suite: Entry[Suite]) -> None:
    """Check that varied releases exist, each under one name: two names would make two tests of one release."""
    named: dict[tuple[str, str], tuple[str, str]] = {}
    for index, block in enumerate(suite.document.blocks):
        for component, releases in block.pins.items():
            at = ("blocks", index, "pins", component)
            if not checker.known(suite, "component", component, checker.catalog.components, *at):
                continue
            if not releases:
                checker.wrong(suite, f"no release of {component} is listed", *at)
            for number, release in enumerate(releases):
                found = release_known(checker, suite, component, release, *at, number)
                if found is None:
                    continue
                first, place = named.setdefault((component, found), (release, suite.source.position(*at, number)))
                if first != release:
                    message = f"'{release}' is {component} {found}, which is '{first}' at {place}; give it one name"
                    checker.wrong(suite, message, *at, number)


def _test_pattern(
    checker: Checker, suite: Entry[Suite], pattern: str, segments: tuple[_Names, _Names], *keys: Key
) -> None:
    """Check that a pattern for tests can be read, and that each of its segments matches a name."""
    try:
        found = test_glob(pattern)
        choices = found.segments
    except PatternError as error:
        checker.wrong(suite, str(error), *keys)
        return
    stated = [each.called for each in suite.document.properties]
    if found.property and not found.property.select(stated):
        near = did_you_mean(found.property.pattern, stated) if found.property.literal else ""
        checker.wrong(suite, f"no property of this suite matches '{printable(found.property.pattern)}'{near}", *keys)
        return
    for globs in choices:
        for names in segments:
            if all(glob.select(known) for glob, known in zip(globs, names, strict=True)):
                return
    shown = printable(pattern)
    for index, (glob, what) in enumerate(zip(choices[0], SEGMENT_NAMES, strict=True)):
        either = [*segments[0][index], *segments[1][index]]
        if not glob.select(either):
            near = did_you_mean(glob.pattern, either) if glob.literal else ""
            checker.wrong(suite, f"no {what} matches '{printable(glob.pattern)}' in '{shown}'{near}", *keys)
            return
    checker.wrong(suite, f"'{shown}' matches no test", *keys)


def _golden(checker: Checker, file: GoldenFile) -> None:
    """Check that a file in golden/WORKLOAD/ is the golden of an output, in the catalog of the workload."""
    workload = checker.catalog.workloads.get(file.workload)
    shown, name = file.item.shown, file.item.name
    if workload is None or workload.root != file.root:
        near = did_you_mean(file.workload, checker.catalog.workloads) if workload is None else ""
        checker.problems.add(shown, f"is not read: this catalog has no workload '{file.workload}'{near}")
        return
    if workload.document.golden == "computed":
        checker.problems.add(shown, f"is not read: {workload.source.position('golden')} says that it is computed")
        return
    outputs = workload.document.outputs
    right = [output + form for output in outputs for form in (WHOLE, SKETCH)]
    if file.item.is_folder or name not in right:
        fix = did_you_mean(name, [*right, "tolerances.yaml"])
        checker.problems.add(shown, f"is not read: not the golden of an output{fix}")


def _one_form(checker: Checker, golden: Iterable[GoldenFile]) -> None:
    """Check that a golden is stored in one form only, whole or as a sketch."""
    there = {(file.root, file.workload, file.item.name) for file in golden}
    for file in golden:
        whole = file.item.name.removesuffix(SKETCH) + WHOLE
        if file.item.name.endswith(SKETCH) and (file.root, file.workload, whole) in there:
            checker.problems.add(
                file.item.shown, f"is there twice: {whole} beside it is the same golden; remove one of them"
            )
