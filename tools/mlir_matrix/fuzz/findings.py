"""From failures to findings: alike ones are one, which is reduced, confirmed, and run with other releases."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from mlir_matrix.actions.outcomes import Outcome, Stage
from mlir_matrix.actions.runtime.collect import remove_folder
from mlir_matrix.base.digest import digest_value
from mlir_matrix.base.errors import InfrastructureError, UsageError
from mlir_matrix.base.events import Listener
from mlir_matrix.base.files import write_text
from mlir_matrix.catalog.pins import read_pins
from mlir_matrix.environments.resolve import ResolvedEnvironment
from mlir_matrix.environments.session import Session
from mlir_matrix.fuzz.documents import FuzzFinding
from mlir_matrix.fuzz.known import Known
from mlir_matrix.fuzz.programs import AnyProgram, CorpusMember
from mlir_matrix.fuzz.routes import COMPOSED, COMPOSED_STEP, composed_passes
from mlir_matrix.fuzz.session import VARIANTS, Failure, Fuzzer, fails
from mlir_matrix.plan.planner import PlannedTests
from mlir_matrix.plan.request import Limits
from mlir_matrix.plan.session import plan_tests, select_tests
from mlir_matrix.reduce.reduced import Reduced
from mlir_matrix.reduce.report import write_report
from mlir_matrix.reduce.run import reduce_named
from mlir_matrix.results.results import NOT_RUN, TestResult
from mlir_matrix.results.run_plan import run_plan
from mlir_matrix.results.signature import behaviour

#: The component whose releases are tried.
COMPONENT = "llvm"
#: Other inputs with which a failure must show.
DRAWS = 3
#: So many failures that are alike show which operations they need.
ENOUGH = 5
ENTRY = "finding.json"
#: In messages, what depends on the program: shapes with the type of elements, lists of numbers, numbers.
_NUMBERS = re.compile(r"(?<!\w)(?:(?:\[…\]|[\d?*]+)x)+(?:complex<\w+>|[a-z]\w*)?|\[[-\d,?… ]*\]|(?<!\w)-?\d+")
#: Which operation of the program what is refused comes from.
_ORIGIN = re.compile(r", from '[\w.]*'?$")
#: How LLVM refuses a pass, or an option of a pass, that it does not have.
_UNKNOWN_PASS = re.compile(r"'([\w-]+)' does not refer to a registered pass|no such option ([\w-]+)")
_CATALOG, _REDUCED = "catalog", "reduced"
#: How a program ends that was compiled in another meaning.
_WRONG = (Outcome.MISMATCH, Outcome.RUN_FAILED)


@dataclass
class Finding:
    """A failure that is unlike all others of its session."""

    key: str
    failure: Failure
    folder: Path
    #: How many programs failed in this way, and with how many of other inputs the first one fails. None: it has no others.
    count: int = 1
    draws: int | None = 0
    #: The operations that all of those have that failed at the same place, and how many these are.
    common: frozenset[str] = frozenset()
    compared: int = 1
    #: Of a composed route, a pass or step that fails alone, or else those without which the route does not fail.
    needed: tuple[str, ...] = ()
    #: None where it could not be reduced, for ``trouble``.
    reduced: Reduced | None = None
    trouble: str = ""
    #: How the program ends by release.
    releases: Mapping[str, Outcome] = field(default_factory=dict)
    #: The link of a known one.
    known: str = ""

    @property
    def step(self) -> str:
        """The step that is wrong; empty where it is not known."""
        result = self.failure.result
        if self.reduced is not None:
            return self.reduced.subject.guilty
        return str(result.step["name"]) if result.step and result.outcome not in _WRONG else ""

    @property
    def confirmed(self) -> bool:
        """Whether it fails in new processes, and with all inputs."""
        return self.reduced is not None and self.reduced.verified and self.draws in (None, DRAWS)

    def entry(self) -> FuzzFinding:
        """Return it for a document."""
        result, reduced = self.failure.result, self.reduced
        return {
            "key": self.key,
            "known": self.known,
            "id": result.id,
            "outcome": result.outcome,
            "reason": result.reason,
            "step": self.step,
            "passes": list(reduced.passes if reduced and reduced.passes else self.needed),
            "count": self.count,
            "operations": reduced.after.operations if reduced else None,
            "draws": self.draws,
            "releases": dict(self.releases),
            "confirmed": self.confirmed,
            "trouble": self.trouble,
            "folder": str(self.folder),
        }


@dataclass
class Findings:
    """The findings of a session by their keys.

    ``words``: the options that choose catalogs and releases, for commands.
    """

    fuzzer: Fuzzer
    folder: Path
    limits: Limits
    budget_s: float
    listener: Listener
    known: Known
    words: Sequence[str] = ()
    found: dict[str, Finding] = field(default_factory=dict)
    #: By the keys of failures.
    _alike: dict[str, Finding] = field(default_factory=dict)

    def add(self, failure: Failure) -> Finding | None:
        """Take a failure; return it as a finding if it is unlike those before it. Reduce and write what is not known."""
        unknown = _UNKNOWN_PASS.search(failure.result.reason)
        if unknown and COMPOSED in failure.place:
            # The release does not have it.
            self.fuzzer.avoid(composed_passes(unknown[1] or unknown[2]))
            return None
        key = key_of(failure.result, failure.round, failure.origin)
        if key in self._alike:
            self._alike[key].count += 1
            self._compare(self._alike[key], failure)
            return None
        finding = Finding(key, failure, self.folder / key, common=frozenset(failure.program.operations))
        if not self.known.link(key, [finding.step]):
            remove_folder(str(finding.folder))
            try:
                self._look_into(finding)
            except KeyboardInterrupt:
                finding.trouble = "the session was interrupted"
                if finding.key not in self.found:
                    self.found[finding.key] = finding
                    self._write(finding)
                raise
        known = self._alike[key] = self.found.setdefault(finding.key, finding)
        if known is not finding:
            known.count += 1
            remove_folder(str(finding.folder))
            return None
        finding.known = self.known.link(finding.key, [finding.step, *finding.needed])
        self._write(finding)
        return finding

    def _write(self, finding: Finding) -> None:
        """Write a finding into the folder of its key."""
        folder = self.folder / finding.key
        if folder != finding.folder:
            if finding.folder.exists():
                remove_folder(str(folder))
                finding.folder.rename(folder)
            finding.folder = folder
        if finding.reduced is not None:
            finding.reduced = finding.reduced.moved(folder / _REDUCED)
            write_report(finding.reduced, [*self.words, "--catalog", str(folder / _CATALOG)])
        write_text(folder / ENTRY, json.dumps(finding.entry(), indent=1) + "\n")

    def _compare(self, finding: Finding, failure: Failure) -> None:
        """After some failures, the operations that all of them have are known to fail, and need not be tried again."""
        # What a composed route and its steps are depends on the round.
        if failure.place != finding.failure.place or COMPOSED in failure.place:
            return
        # Composed programs have operations, workloads a name.
        if bool(failure.origin) != bool(finding.failure.origin):
            return
        finding.common &= frozenset(failure.program.operations)
        finding.compared += 1
        if finding.compared >= ENOUGH and finding.common:
            self.fuzzer.shun(failure.place, finding.common)

    def _look_into(self, finding: Finding) -> None:
        """Find what is wrong. Reduce the program, unless another one has shown the same."""
        try:
            alone, needed = self._parts(finding)
            if alone or needed:
                # What is known to be wrong may show only with others, which are not wrong.
                keys = {part: _digest([Outcome.MISMATCH, part]) for part in (*alone, *needed)}
                seen = tuple(part for part, key in keys.items() if self._is_seen(key, [part]))
                finding.needed = seen[:1] or alone[:1] or needed
                finding.key = _digest([Outcome.MISMATCH, *finding.needed])
                # Others that are wrong alone are found in later rounds.
                self.fuzzer.avoid([part for part in alone if part in seen] or alone[:1])
                if self._is_seen(finding.key, finding.needed):
                    return
            if finding.failure.result.unstable:
                self._keep(finding)
                return
            self._reduce(finding)
            if not finding.needed:
                finding.key = key_of_cause(finding) or finding.key
        except (UsageError, InfrastructureError) as error:
            finding.trouble = str(error)

    def _is_seen(self, key: str, parts: Sequence[str]) -> bool:
        """Return whether what is wrong in a composed route was found before, or is known."""
        return key in self.found or bool(self.known.link(key, parts))

    def _parts(self, finding: Finding) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return which passes and steps of a composed route give a wrong result alone, and without which it is right.

        Both are empty for other failures, and where that is not known.
        """
        failure, result = finding.failure, finding.failure.result
        route = result.identity.pipeline
        if not _is_wrong(result) or not route.startswith(COMPOSED):
            return (), ()
        root = self.folder / VARIANTS
        remove_folder(str(root))
        variants = self.fuzzer.write_variants(root, route, failure.round)
        session = self._written(root, failure, {result.workload: failure.program})
        tests = [result.id.replace(f"/{route}/", f"/{name}/") for name in (route, *variants)]
        results = {each.identity.pipeline: each for each in self._run(session, tests)}
        is_hindered = any(each.outcome == Outcome.INFRA_ERROR for each in results.values())
        if is_hindered or route not in results or not _is_wrong(results[route]):
            return (), ()
        wrong = [variant for name, variant in variants.items() if name in results and _is_wrong(results[name])]
        right = [variants[name] for name, each in results.items() if name != route and each.outcome == Outcome.PASS]
        alone = tuple(variant.part for variant in wrong if variant.alone)
        if "" in alone:
            # What all routes have is wrong.
            return (), ()
        return alone, tuple(variant.part for variant in right if not variant.alone)

    def _keep(self, finding: Finding) -> None:
        """Write a program that is compiled in several ways, which no single run shows."""
        failure, root = finding.failure, finding.folder / _CATALOG
        self._written(root, failure, {failure.result.workload: failure.program})
        words = shlex.join([failure.result.id, *self.words, "--catalog", str(root)])
        finding.trouble = f"no single run shows it; to compile it once more: matrix run {words} --rerun-from import"

    def _reduce(self, finding: Finding) -> None:
        failure = finding.failure
        root = finding.folder / _CATALOG
        name, program = failure.result.workload, failure.program
        others: dict[str, AnyProgram] = {}
        if not isinstance(program, CorpusMember):
            others = {f"{name}d{draw}": program.with_inputs(draw) for draw in range(1, DRAWS + 1)}
        session = self._written(root, failure, {name: program, **others})
        finding.draws = self._alike_with(session, failure, [*others]) if others else None
        reduced = finding.folder / _REDUCED
        finding.reduced = reduce_named(
            session, failure.result.id, self.limits, self.budget_s, reduced, listener=self.listener
        )
        finding.releases = self._by_release(session, failure.result.id)

    def _alike_with(self, session: Session, failure: Failure, others: Sequence[str]) -> int:
        """Return with how many of other inputs, which other programs have, a program fails in the same way."""
        name = failure.result.workload
        drawn = self._run(session, [failure.result.id.replace(name, other) for other in others])
        alike = key_of(failure.result, failure.round, failure.origin)
        return sum(fails(each) and key_of(each, failure.round, failure.origin) == alike for each in drawn)

    def _written(self, root: Path, failure: Failure, programs: Mapping[str, AnyProgram]) -> Session:
        self.fuzzer.write(root, programs, failure.profile, failure.round)
        return self.fuzzer.session_with(root)

    def _run(self, session: Session, tests: list[str], *, if_installed: bool = False) -> list[TestResult]:
        """Run tests. Raise the interruption, if any. ``if_installed``: return nothing if packages would be fetched."""
        plan = plan_tests(session, select_tests(session, tests))
        if if_installed and not _is_installed(session, plan):
            return []
        run = run_plan(session, plan, limits=self.limits, fail_fast=False, listener=self.listener)
        run.raise_interruption()
        return run.results

    def _by_release(self, session: Session, test: str) -> dict[str, Outcome]:
        """Return how a test ends with each release that is installed here and that its route supports."""
        found: dict[str, Outcome] = {}
        entry = session.catalog.components[COMPONENT]
        for release in entry.document.releases:
            pins = read_pins(session.catalog, [f"{COMPONENT}={release.release}"])
            for result in self._run(session.with_pins(pins), [_as_glob(test)], if_installed=True):
                is_decided = result.outcome != Outcome.MISMATCH or fails(result)
                if is_decided and result.outcome not in NOT_RUN | {Outcome.INFRA_ERROR}:
                    found[release.release] = result.outcome
        return found


def _is_wrong(result: TestResult) -> bool:
    """Return whether a program was compiled in another meaning: its results are wrong, or it crashes."""
    return result.outcome in _WRONG or (result.outcome == Outcome.CRASHED and result.stage == Stage.RUN)


def _as_glob(test: str) -> str:
    """Return a glob for a test, which may match nothing where a release does not support it."""
    return f"{{{test.replace('/', '}/{')}}}"


def _is_installed(session: Session, plan: PlannedTests) -> bool:
    environments = session.environments(action.environment for action in plan.graph.actions.values())
    packages = session.home.packages
    return all(isinstance(each, ResolvedEnvironment) and not each.missing(packages) for each in environments.values())


def key_of(result: TestResult, round: int, origin: str = "") -> str:
    """Return what identifies a failure: how it ends and where, without what depends on the program.

    ``origin``: the workload of the catalog that it is, in other sizes, or the member of a corpus.
    """
    found = behaviour(result)
    if found.outcome in _WRONG:
        # What is wrong depends on the program; the route does not. A composed one is of one round.
        cell = result.identity.cell
        where = [cell, str(round) if COMPOSED in cell else ""]
        if origin:
            where.append(origin)
        found = replace(found, details=tuple(where))
    else:
        found = replace(found, details=tuple(map(_without_names, found.details)))
    # Names of composed steps depend on the round. That of a step that is a tool ends with the workload.
    step = COMPOSED_STEP.sub("", found.step.rpartition("/")[0] or found.step)
    return _digest([found.outcome, found.stage, step, found.signal, found.frame, *found.details])


def _without_names(detail: str) -> str:
    """Return a message without what depends on the program and the round."""
    return COMPOSED_STEP.sub("", _NUMBERS.sub("", _ORIGIN.sub("", detail)))


def key_of_cause(finding: Finding) -> str:
    """Return what identifies wrong results on all routes, or crashes in all steps, by the passes that suffice for them.

    Empty for other failures, and where the passes are not known.
    """
    reduced, result = finding.reduced, finding.failure.result
    if reduced is None or not reduced.passes:
        return ""
    if result.outcome == Outcome.MISMATCH:
        return _digest([Outcome.MISMATCH, COMPOSED_STEP.sub("", reduced.subject.guilty), *reduced.passes])
    if result.outcome == Outcome.CRASHED:
        found = behaviour(result)
        return _digest([Outcome.CRASHED, found.signal, found.frame, *reduced.passes])
    return ""


def _digest(words: list[str]) -> str:
    return digest_value(words)[:12]
