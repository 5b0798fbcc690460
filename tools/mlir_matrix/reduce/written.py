"""Write a reduced program as a workload of a catalog: the IR, its inputs by formulas, and its reference."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from mlir_matrix.actions.outcomes import Stage
from mlir_matrix.base.errors import CatalogError, UsageError
from mlir_matrix.base.files import unwritable, write_text
from mlir_matrix.base.names import with_pins
from mlir_matrix.catalog.load import load
from mlir_matrix.catalog.models.base import FLOATS
from mlir_matrix.expand.checks.validate import validate
from mlir_matrix.plan.request import Limits
from mlir_matrix.plan.session import plan_tests, select_tests
from mlir_matrix.reduce.levels import framework_of
from mlir_matrix.reduce.program import Interface, interface_of
from mlir_matrix.reduce.reduced import Reduced
from mlir_matrix.results.commands_script import SCRIPT, CommandScripts
from mlir_matrix.results.results import TestResult
from mlir_matrix.results.run_plan import run_plan

WORKLOADS, STEPS = "matrix/workloads", "recipes/steps"
_FUNCTION = re.compile(r"^ *func\.func .*@([\w.$-]+)\(", re.MULTILINE)
#: Why a trivial output may be right.
_WEAK = "What is reduced to the operations that fail may give an input or a constant."
#: The reference of a program for which NumPy has none. Its test fails before it is needed.
_NO_REFERENCE = '''\
"""No reference is known: {reason}."""


def reference({arguments}):
    raise NotImplementedError({reason!r})
'''


def no_reference(interface: Interface, reason: str) -> str:
    """Return the text of a reference that raises, for a test that fails before it is needed."""
    return _NO_REFERENCE.format(reason=reason, arguments=", ".join(each["name"] for each in interface.inputs))


def write_framework(catalog: Path, kind: str) -> tuple[str, str]:
    """Write a framework whose sources are MLIR of a kind, taken as it is. Return its name and that of its sources."""
    name, source = "reduced", f"{kind}.mlir"
    lines = [
        f"description: MLIR of kind {kind}, taken as it is.",
        f"emits: {{{kind}: {source}}}",
        "fixed_shapes: true",
        "",
    ]
    write_text(catalog / "matrix/frameworks" / name / "framework.yaml", "\n".join(lines))
    return name, source


def write_workload(
    catalog: Path, name: str, source: str, text: str, reference: str, interface: Interface, description: str
) -> Path:
    """Write a workload's folder and return it. ``source``: the name of its file of MLIR, whose content is ``text``.

    Raise InfrastructureError.
    """
    folder = catalog / WORKLOADS / name
    write_text(folder / source, text)
    write_text(folder / "workload.yaml", _document(interface, description))
    write_text(folder / "reference.py", reference)
    return folder


def ir_test(text: str) -> str:
    """Return IR as an IR test, which passes once the step gives any IR with its first function."""
    function = _FUNCTION.search(text)
    wanted = f"CHECK-LABEL: @{function[1]}" if function else "CHECK: module"
    return f"// {wanted}\n{text}"


def _document(interface: Interface, description: str) -> str:
    """Return the text of ``workload.yaml``. A value in JSON is one in YAML."""
    lines = [f"description: {json.dumps(description)}", "golden: computed"]
    if interface.dims:
        lines.append(f"dims: {json.dumps(dict(interface.dims))}")
    if interface.inputs:
        lines.append("inputs:")
    for tensor in interface.inputs:
        values: Mapping[str, object] = {key: tensor[key] for key in ("shape", "dtype", "formula", "seed")}
        lines.append(f"  {tensor['name']}: {json.dumps(values)}")
    lines.append("outputs:")
    for result in interface.results:
        declared: dict[str, object] = {key: result[key] for key in ("shape", "dtype")}
        if result["dtype"] not in FLOATS:
            declared["compare"] = "exact"
        lines.append(f"  {result['name']}: {json.dumps({**declared, 'weak': _WEAK})}")
    return "\n".join([*lines, ""])


def write_result(reduced: Reduced, limits: Limits) -> Reduced:
    """Write the result as a workload of a catalog in its folder, and run it. It stays only if it fails as the test does.

    Raise InfrastructureError.
    """
    catalog = reduced.folder / "catalog"
    shutil.rmtree(catalog, ignore_errors=True)
    identifier = _write_as_workload(reduced, catalog)
    if not identifier:
        return reduced
    subject = reduced.subject
    try:
        found = validate(load([*subject.session.catalog.roots, catalog]), stale_goldens=True)
    except CatalogError:
        # What fails before it has results may have sizes of 0, say, which no workload has.
        shutil.rmtree(catalog, ignore_errors=True)
        return reduced
    session = replace(subject.session, catalog=found)
    plan = plan_tests(session, [each for each in select_tests(session, [identifier]) if each.outcome is None])
    run = run_plan(session, plan, limits=limits, fail_fast=False)
    run.raise_interruption()
    if not run.results or not _is_alike(run.results[0], subject.result):
        shutil.rmtree(catalog, ignore_errors=True)
        return reduced
    script = _write_script(reduced.folder / "plain", CommandScripts(session, plan, run.done), identifier)
    return replace(reduced, workload=_name(reduced), test=identifier, script=script)


def _name(reduced: Reduced) -> str:
    """Return the name of the workload of a result."""
    return re.sub(r"\W+", "_", f"reduced_{reduced.subject.test.workload}").lower()


def _write_as_workload(reduced: Reduced, catalog: Path) -> str:
    """Write the result as a workload, and return its test; empty if no pipeline of the test takes it."""
    subject, test, known = reduced.subject, reduced.subject.test, reduced.subject.session.catalog
    kernel = subject.behaviour.kernel
    if test.is_ir or kernel is None or reduced.best is None:
        return ""
    interface = interface_of(reduced.best, kernel)
    if interface is None or subject.kind not in known.pipelines[test.pipeline].document.entry:
        return ""
    framework = framework_of(known, subject.kind)
    if framework:
        source = known.frameworks[framework].document.emits[subject.kind]
    else:
        framework, source = write_framework(catalog, subject.kind)
    description = f"Reduced from {test.id}, which ends with {subject.result.outcome}."
    write_workload(catalog, _name(reduced), source, reduced.text, reduced.reference, interface, description)
    return with_pins(f"{framework}/{test.pipeline}/{test.target}/{_name(reduced)}", test.pins)


def _write_script(folder: Path, scripts: CommandScripts, test: str) -> Path | None:
    """Write the commands of the compiler's own programs. Return the script; None if no program ran."""
    shutil.rmtree(folder, ignore_errors=True)
    try:
        folder.mkdir()
        scripts.write(folder, test, {})
    except OSError as error:
        raise unwritable(f"{folder} cannot be written", error) from None
    script = folder / SCRIPT
    return script if script.is_file() else None


def _is_alike(result: TestResult, wanted: TestResult) -> bool:
    """Return whether a reduced test ends as the whole one does."""
    if result.outcome != wanted.outcome or result.step is None or wanted.step is None:
        return False
    # A run and a verdict are named by the workload, whose name is another one.
    return result.stage == wanted.stage in (Stage.RUN, Stage.JUDGE) or result.step["name"] == wanted.step["name"]


def add_to_catalog(reduced: Reduced, catalog: Path) -> Path:
    """Add the result to a catalog: as a workload, or as an IR test of a step of that catalog. Return what was written.

    Raise UsageError if it is neither, or exists.
    """
    subject = reduced.subject
    files = {}
    if reduced.workload:
        source = reduced.folder / "catalog" / WORKLOADS / reduced.workload
        target = catalog / WORKLOADS / reduced.workload
        files = {target / file.name: file.read_text(encoding="utf-8") for file in sorted(source.iterdir())}
    elif subject.test.is_ir:
        step = catalog / STEPS / subject.test.pipeline
        if not step.is_dir():
            raise UsageError(f"--write: {catalog} has no step {subject.test.pipeline}; give the catalog that has it")
        target = step / "tests" / f"reduced_{subject.test.workload}.mlir"
        files = {target: ir_test(reduced.text)}
    else:
        raise UsageError(f"--write: the result fails from the level {subject.level} only, so it is no workload")
    if target.exists():
        raise UsageError(f"--write: {target} exists; move or remove it")
    for path, text in files.items():
        write_text(path, text)
    return target
