"""Check workloads, suites and golden files."""

from __future__ import annotations

import keyword
import math
import shlex
from collections.abc import Mapping, Sequence

from mlir_matrix.actions.expr.expression import ExpressionError
from mlir_matrix.actions.expr.formula import GRAMMAR, check_formula
from mlir_matrix.actions.mlir.interface import MAX_ELEMENTS, MAX_POINTERS, MAX_RANK
from mlir_matrix.actions.numerics.formats import COMPLEX
from mlir_matrix.base.names import OF, PatternError, did_you_mean, printable
from mlir_matrix.base.text import catalog_options
from mlir_matrix.catalog.bounds import evaluate
from mlir_matrix.catalog.catalog import REFERENCE, Catalog, Entry
from mlir_matrix.catalog.golden_files import RECORD, SKETCH, WHOLE, GoldenFile, is_sketched, record_of
from mlir_matrix.catalog.models.base import FLOATS, Document, Output, TensorInput, Workload
from mlir_matrix.catalog.models.suites import (
    KINDS,
    Agreement,
    Expectation,
    Expectations,
    ExpectedTests,
    Property,
    Quarantine,
    SameIr,
    Scaling,
    Suite,
    SuiteBlock,
)
from mlir_matrix.catalog.yaml_reader import Key
from mlir_matrix.expand.checks import programs
from mlir_matrix.expand.checks.checker import Checker
from mlir_matrix.expand.suite import block_products, namespace_of, parts_of
from mlir_matrix.expand.test_sets import MOST_TESTS, Namespace

#: Outcomes that a suite cannot expect, and why.
_NEVER_EXPECTED = {
    "unsupported": "it follows from the files and needs no expectation",
    "skipped": "it depends on the machine, not on the suite",
    "infra-error": "it is not a result of the test",
    "pass": "it is expected of every test without an expectation",
}


def check(checker: Checker) -> None:
    """Check all workloads, suites and goldens."""
    catalog = checker.catalog
    sources = programs.source_files(catalog)
    programs.check(checker)
    for workload in catalog.workloads.values():
        if workload.document.source is not None:
            programs.check_program(checker, workload)
        else:
            _workload(checker, workload, sources)
    for suite in catalog.suites.values():
        _suite(checker, suite)
    for expected in catalog.expectations.values():
        _expectations(checker, expected)
    for quarantine in catalog.quarantines:
        _quarantine(checker, quarantine)
    for file in catalog.golden_files:
        _golden(checker, file)


def _workload(checker: Checker, workload: Entry[Workload], sources: set[str]) -> None:
    document = workload.document
    _keys(checker, workload)
    if REFERENCE not in workload.files:
        checker.wrong(workload, f"the reference is missing: {REFERENCE} beside this file")
    variants = {each.file for found in document.sources.values() for each in found}
    right = {*sources, *variants, REFERENCE, "workload.yaml"}
    for source, found in document.sources.items():
        checker.known(workload, "source", source, sources & workload.files.keys(), "sources", source)
        for index, each in enumerate(found):
            if each.file not in workload.files:
                message = f"there is no file '{each.file}' in this folder{did_you_mean(each.file, workload.files)}"
                checker.wrong(workload, message, "sources", source, index, "file")
    for name in workload.files.keys() - right:
        message = f"is not read: no framework has such a source{did_you_mean(name, right)}"
        checker.problems.add(workload.source.beside(name), message)
    _dimensions(checker, workload)
    for name, tensor in document.inputs.items():
        try:
            check_formula(tensor.formula, document.dims)
        except ExpressionError as error:
            checker.wrong(workload, printable(str(error), 400), "inputs", name, "formula")
    _outputs(checker, workload)
    _absent(checker, workload)


def _keys(checker: Checker, workload: Entry[Workload]) -> None:
    """Check that a workload without ``source`` has the keys that it needs, and no key that requires ``source``."""
    if not workload.document.outputs:
        checker.wrong(
            workload, "the key 'outputs' is missing or empty: a workload has outputs, or a 'source'", "outputs"
        )
    if "inputs" not in workload.document.model_fields_set:
        checker.wrong(
            workload, "the key 'inputs' is missing: a workload has inputs (inputs: {} if none), or a 'source'", "inputs"
        )
    for key, shown in (("program", "program"), ("parameters", "with")):
        if getattr(workload.document, key):
            checker.wrong(workload, f"'{shown}' has no effect without 'source'", shown)


def _outputs(checker: Checker, workload: Entry[Workload]) -> None:
    for name, output in workload.document.outputs.items():
        if output.dtype not in FLOATS and output.compare == "numeric":
            fix = f"{output.dtype} is compared exactly or order-free, not numerically; write compare: exact"
            checker.wrong(workload, fix, "outputs", name, "compare")
        if output.nan is not None and output.dtype not in FLOATS:
            checker.wrong(workload, f"{output.dtype} has no NaN; leave 'nan' out", "outputs", name, "nan")
        if output.dtype in COMPLEX and is_sketched(workload.document, output):
            fix = f"an array of {output.dtype} has no sketch, and this one is too large for a golden; write golden: computed"
            checker.wrong(workload, fix, "outputs", name, "dtype")
        if f"{name}{WHOLE}".endswith(SKETCH):
            checker.wrong(workload, "an output's name may not end in .sketch: sketches' files do", "outputs", name)


def _dimensions(checker: Checker, workload: Entry[Workload]) -> None:
    """Check that dimensions fit formulas, that the driver can pass all tensors, and that each dynamic one is in an input."""
    document = workload.document
    for name, size in document.dims.items():
        if not name.isidentifier() or keyword.iskeyword(name) or name in GRAMMAR.functions:
            checker.wrong(workload, f"the dimension '{name}' could not be used in a formula", "dims", name)
        if size < 1:
            checker.wrong(workload, f"the dimension '{name}' is {size}; sizes begin at 1", "dims", name)
    _sizes(checker, workload)
    for key, tensors, limit in (
        ("inputs", document.inputs, MAX_POINTERS - 1),
        ("outputs", document.outputs, MAX_POINTERS),
    ):
        if len(tensors) > limit:
            fix = f"{len(tensors)} {key}; a kernel can have {limit}, so join tensors of one dtype and shape"
            checker.over("workloads", workload, fix, key, list(tensors)[limit])
        for name, tensor in tensors.items():
            _shape(checker, workload, tensor.shape, key, name, "shape")
    given = {size for tensor in document.inputs.values() for size in tensor.shape}
    for index, name in enumerate(document.dynamic):
        if checker.known(workload, "dimension", name, document.dims, "dynamic", index) and name not in given:
            checker.wrong(workload, f"the dimension '{name}' is in no input's shape", "dynamic", index)


def _sizes(checker: Checker, workload: Entry[Workload]) -> None:
    """Check that other sizes are sizes of dimensions, and that tensors have no more elements than is allowed."""
    document = workload.document
    tensors: list[TensorInput | Output] = [*document.inputs.values(), *document.outputs.values()]
    for size, dims in document.sizes.items():
        if size == "test":
            checker.wrong(workload, "the size 'test' is what 'dims' says; choose another name", "sizes", size)
        for name, number in dims.items():
            if checker.known(workload, "dimension", name, document.dims, "sizes", size, name) and number < 1:
                checker.wrong(workload, f"the dimension '{name}' is {number}; sizes begin at 1", "sizes", size, name)
        elements = max((_elements(tensor.shape, {**document.dims, **dims}) for tensor in tensors), default=0)
        if elements > MAX_ELEMENTS:
            fix = f"{elements} elements; a tensor can have {MAX_ELEMENTS}"
            checker.wrong(workload, fix, "sizes", size)
    if document.flops is not None:
        try:
            evaluate(document.flops, document.dims, "f64")
        except ExpressionError as error:
            checker.wrong(workload, printable(str(error), 400), "flops")


def _elements(shape: Sequence[int | str], dims: Mapping[str, int]) -> int:
    """Return the number of elements of a shape; unknown dimensions, which have their own message, count as 1."""
    return math.prod(dims.get(size, 1) if isinstance(size, str) else size for size in shape)


def _shape(checker: Checker, workload: Entry[Workload], shape: Sequence[int | str], *keys: Key) -> None:
    if len(shape) > MAX_RANK:
        checker.over("workloads", workload, f"{len(shape)} dimensions; a tensor can have {MAX_RANK}", *keys, MAX_RANK)
    elements = _elements(shape, workload.document.dims)
    if elements > MAX_ELEMENTS:
        checker.over("workloads", workload, f"{elements} elements; a tensor can have {MAX_ELEMENTS}", *keys)
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
            checker.wrong(workload, f"'{name}' is declared absent, but {file} exists", "absent", name)


def _suite(checker: Checker, suite: Entry[Suite]) -> None:
    catalog, document = checker.catalog, suite.document
    _contents(checker, suite)
    for index, block in enumerate(document.blocks):
        _block(checker, suite, block, index)
    _pins(checker, suite)
    _steps(checker, suite, document.steps, "steps")
    namespace = namespace_of(catalog, parts_of(catalog, suite))
    for index, pattern in enumerate(document.include):
        check_test_pattern(checker, suite, namespace, pattern, "include", index)
    rules = [(rule.tests, "exclude", index) for index, rule in enumerate(document.exclude)]
    rules += [(rule.tests, "expect", index) for index, rule in enumerate(document.expect)]
    rules += [(rule.tests, "properties", index) for index, rule in enumerate(document.properties)]
    for patterns, key, number in rules:
        for index, pattern in enumerate(patterns):
            check_test_pattern(checker, suite, namespace, pattern, key, number, "tests", index)
    _outcomes(checker, suite)
    for index, stated in enumerate(document.properties):
        _property(checker, suite, stated, "properties", index)
    _conflicts(checker, suite)
    if not checker.problems.found:
        _size(checker, suite, namespace)


def _quarantine(checker: Checker, quarantine: Entry[Quarantine]) -> None:
    namespace = namespace_of(checker.catalog, checker.catalog.suites.values())
    for number, entry in enumerate(quarantine.document.quarantine):
        checker.check_date(quarantine, entry.until, "quarantine", number, "until")
        for index, pattern in enumerate(entry.tests):
            check_test_pattern(checker, quarantine, namespace, pattern, "quarantine", number, "tests", index)


def _outcomes(checker: Checker, rules: Entry[Suite] | Entry[Expectations]) -> None:
    expectations: Sequence[Expectation | ExpectedTests] = rules.document.expect
    for index, expectation in enumerate(expectations):
        if why := _NEVER_EXPECTED.get(expectation.outcome):
            checker.wrong(rules, f"{expectation.outcome} cannot be expected: {why}", "expect", index, "outcome")


def _expectations(checker: Checker, entry: Entry[Expectations]) -> None:
    """Check that a file of expectations is beside its suite; expansion checks its tests."""
    suites = checker.catalog.suites
    if checker.known(entry, "suite", entry.name, suites) and suites[entry.name].root != entry.root:
        where = suites[entry.name].source.file
        checker.wrong(entry, f"suite {entry.name} is in another catalog ({where}), which has its expectations")
    _outcomes(checker, entry)


def _contents(checker: Checker, suite: Entry[Suite]) -> None:
    """Check that a suite selects anything, and that the suites that it includes exist."""
    document = suite.document
    if not (document.suites or document.blocks or document.steps or document.include):
        checker.wrong(suite, "the suite is empty: it has no 'suites', 'blocks', 'steps' or 'include'")
    for index, name in enumerate(document.suites):
        checker.known(suite, "suite", name, checker.catalog.suites, "suites", index)


def _size(checker: Checker, suite: Entry[Suite], namespace: Namespace) -> None:
    """Check that the blocks of a suite have no more tests than a plan can hold."""
    tests = 0
    for index, block in enumerate(suite.document.blocks):
        pins = math.prod(len(set(releases)) for releases in block.pins.values())
        products = block_products(namespace, block.model_copy(update={"pins": {}}), "")
        tests += pins * sum(math.prod(map(len, product.axes)) for product in products)
        if tests > MOST_TESTS:
            message = f"{tests} tests up to this block; a suite can have {MOST_TESTS}, so make several suites"
            checker.over("suites", suite, message, "blocks", index)


def _steps(checker: Checker, suite: Entry[Suite], patterns: Sequence[str], *keys: Key) -> None:
    """Check that each pattern matches a step with IR tests."""
    with_tests = [name for name, step in checker.catalog.steps.items() if step.cases]
    for index, pattern in enumerate(patterns):
        checker.matches(suite.source, "step with IR tests", pattern, with_tests, *keys, index)


def _conflicts(checker: Checker, suite: Entry[Suite]) -> None:
    """Check that each listed conflict names two IR tests."""
    known = {f"mlir/{name}/ir/{case}" for name, step in checker.catalog.steps.items() for case in step.cases}
    for index, conflict in enumerate(suite.document.conflicts):
        for number, test in enumerate(conflict.tests):
            checker.known(suite, "IR test", test, known, "conflicts", index, "tests", number)
        if len(set(conflict.tests)) == 1:
            checker.wrong(suite, "a test does not conflict with itself; name two", "conflicts", index, "tests")


def _block(checker: Checker, suite: Entry[Suite], block: SuiteBlock, index: int) -> None:
    _steps(checker, suite, block.steps, "blocks", index, "steps")
    for key in ("product", "zip") if block.steps else ():
        if getattr(block, key):
            message = f"a block has 'steps' or '{key}', not both; make two blocks"
            checker.wrong(suite, message, "blocks", index, key)
    for key, patterns_by_axis in (("product", block.product), ("zip", block.zip)):
        for axis, patterns in patterns_by_axis.items():
            at = ("blocks", index, key, axis)
            if not patterns:
                checker.wrong(suite, f"the axis '{axis}' is empty; leave it out for all", *at)
            for number, pattern in enumerate(patterns):
                checker.matches(suite.source, axis, pattern, checker.catalog.axes[axis], *at, number)
    for axis in block.zip.keys() & block.product.keys():
        checker.wrong(suite, f"the axis '{axis}' is under 'product' too", "blocks", index, "zip", axis)
    lengths = {axis: len(patterns) for axis, patterns in block.zip.items()}
    if len(set(lengths.values())) > 1:
        counts = ", ".join(f"{axis} has {length}" for axis, length in lengths.items())
        checker.wrong(suite, f"zipped axes need equal lengths: {counts}", "blocks", index, "zip")


def _pins(checker: Checker, suite: Entry[Suite]) -> None:
    """Check that varied releases exist and have one name each, because two names would give two tests of one release."""
    named: dict[tuple[str, str], tuple[str, str]] = {}
    for index, block in enumerate(suite.document.blocks):
        for component, releases in block.pins.items():
            at = ("blocks", index, "pins", component)
            if not checker.known(suite, "component", component, checker.catalog.components, *at):
                continue
            if not releases:
                checker.wrong(suite, f"no release of {component} is listed", *at)
            for number, release in enumerate(releases):
                found = checker.release(suite, component, release, *at, number)
                if found is None:
                    continue
                first, place = named.setdefault((component, found), (release, suite.source.position(*at, number)))
                if first != release:
                    message = f"'{release}' is {component} {found}, which is '{first}' at {place}; give it one name"
                    checker.wrong(suite, message, *at, number)


def check_test_pattern(
    checker: Checker, suite: Entry[Document], namespace: Namespace, pattern: str, *keys: Key
) -> None:
    """Check that a pattern for tests is valid and matches a test of the catalog."""
    try:
        known = namespace.knows(namespace.patterns(pattern))
    except PatternError as error:
        checker.wrong(suite, str(error), *keys)
        return
    if not known:
        why = namespace.why_nothing(pattern)
        checker.wrong(suite, f"'{printable(pattern)}' matches no test: {why}", *keys)


def _property(checker: Checker, suite: Entry[Suite], stated: Property, *at: Key) -> None:
    """Check that a property has one kind, and that the names in it exist; ``expand/properties`` checks its meaning."""
    for number, pattern in enumerate(stated.tests):
        if OF in pattern:
            message = f"a property applies to tests without a property: leave out '{OF}' and what follows"
            checker.wrong(suite, message, *at, "tests", number)
    if len(stated.kinds) != 1:
        has = f"has {' and '.join(stated.kinds)}" if stated.kinds else "has none"
        checker.wrong(suite, f"a property is one of {', '.join(KINDS)}; this one {has}", *at)
        return
    at = (*at, stated.kinds[0])
    property_kind = stated.property_kind
    if isinstance(property_kind, Scaling):
        factors = [("inputs", *each) for each in property_kind.inputs.items()]
        factors += [("outputs", *each) for each in property_kind.outputs.items()]
        for key, name, factor in factors:
            if not factor or not math.isfinite(factor):
                checker.wrong(suite, f"a factor of {factor}; it is a finite number other than 0", *at, key, name)
        if all(factor == 1 for factor in property_kind.inputs.values()):
            checker.wrong(suite, "every factor is 1: nothing is scaled", *at, "inputs")
    elif isinstance(property_kind, (Agreement, SameIr)):
        _other_cell(checker, suite, property_kind, *at)


def _other_cell(checker: Checker, suite: Entry[Suite], property_kind: Agreement | SameIr, *at: Key) -> None:
    """Check that a property names another cell, and that its parts exist."""
    asked = {axis: name for axis, name in property_kind.cell.items() if name is not None}
    for axis, name in asked.items():
        checker.known(suite, axis, name, checker.catalog.axes[axis], *at, axis)
    if not asked:
        message = f"it names none of {', '.join(property_kind.cell)}: tests would be compared with themselves"
        checker.wrong(suite, message, *at)
    if isinstance(property_kind, SameIr):
        checker.known(suite, "kind", property_kind.at, checker.catalog.kinds, *at, "at")


def _golden(checker: Checker, file: GoldenFile) -> None:
    """Check that a file in golden/WORKLOAD/ is the golden of an output, in the catalog of the workload."""
    workload = checker.catalog.workloads.get(file.workload)
    shown, name = file.item.shown, file.item.name
    if workload is None or workload.root != file.root:
        near = did_you_mean(file.workload, checker.catalog.workloads) if workload is None else ""
        checker.problems.add(shown, f"is not read: this catalog has no workload '{file.workload}'{near}")
        return
    if workload.document.golden == "computed":
        position = workload.source.position("golden")
        checker.problems.add(shown, f"is not read: the goldens of this workload are computed ({position})")
        return
    right = [RECORD, *(output + form for output in workload.document.outputs for form in (WHOLE, SKETCH))]
    if file.item.is_folder or name not in right:
        fix = did_you_mean(name, [*right, "tolerances.yaml"])
        checker.problems.add(shown, f"is not read: not the golden of an output{fix}")


def check_goldens(checker: Checker) -> None:
    """Check that goldens have one form, and by the records beside them that their workloads have not changed since."""
    _check_forms(checker)
    _check_records(checker)


def _check_forms(checker: Checker) -> None:
    catalog = checker.catalog
    names = {(file.root, file.workload, file.item.name) for file in catalog.golden_files}
    for file in catalog.golden_files:
        whole = file.item.name.removesuffix(SKETCH) + WHOLE
        if file.item.name.endswith(SKETCH) and (file.root, file.workload, whole) in names:
            message = (
                f"{whole} beside it is the same golden; to keep the right one, run {_update(catalog, file.workload)}"
            )
            checker.problems.add(file.item.shown, message)


def _update(catalog: Catalog, workload: str) -> str:
    """Return the command that writes the goldens of a workload."""
    return shlex.join(["matrix", "golden", "update", "--write", workload, *catalog_options(catalog.roots[1:])])


def _check_records(checker: Checker) -> None:
    catalog, problems = checker.catalog, checker.problems
    for file in {file.workload: file for file in catalog.golden_files}.values():
        name, workload = file.workload, catalog.workloads[file.workload]
        if ("workloads", name) in catalog.over or ("workloads", name) in problems.over:
            continue
        command = _update(catalog, name)
        shown = f"{file.item.shown.rpartition('/')[0]}/{RECORD}"
        try:
            wanted = record_of(workload.document, workload.files[REFERENCE]).encode()
            found = file.item.path.with_name(RECORD).read_bytes()
        except FileNotFoundError:
            message = f"is missing: it records from what the goldens beside it were computed; run {command}"
            problems.add(shown, message)
            continue
        except OSError as error:
            problems.add(shown, f"cannot be compared: {error.strerror}: {error.filename}")
            continue
        if found != wanted:
            lines = found.decode(errors="replace").splitlines()
            names = {
                at: line.split()[1]
                for at, line in enumerate(wanted.decode().splitlines())
                if [line] != lines[at : at + 1]
            }
            what = " and ".join(names.values()) or RECORD
            message = f"{what} of {name} changed since its goldens were written; run {command}"
            problems.add(shown, message, (min(names, default=0) + 1, 1))
