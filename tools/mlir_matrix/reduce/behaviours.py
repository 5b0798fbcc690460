"""Decide whether a candidate behaves as the failing test does: the same failure, or wrong numbers that others get right."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Protocol

from mlir_matrix.actions.outcomes import Outcome, Stage
from mlir_matrix.base.digest import digest_value
from mlir_matrix.base.errors import InfrastructureError, UsageError
from mlir_matrix.reduce.documents import By
from mlir_matrix.reduce.program import Interface, KernelSignature, interface_of, named_inputs
from mlir_matrix.reduce.sides import CANDIDATE, DRAWS, REFERENCE, VERDICT, DisagreementBounds, Side, other, result
from mlir_matrix.reduce.workers import CandidateResult, Workers
from mlir_matrix.reduction.numpy_text import Untranslatable, numpy_text
from mlir_matrix.reduction.search import Candidate
from mlir_matrix.reduction.tree import ParseError, parse
from mlir_matrix.results.result_maker import innermost_frame
from mlir_matrix.results.results import TestResult
from mlir_matrix.results.signature import Signature, behaviour

#: In a reason: types and attributes, whose sizes a reduction changes. Names of operations have a dot, and stay.
_SIZES = re.compile(r"<[^<>]*>|\b[\d?]+(?:x[\d?]+)*x(?=\w)|'[^'\s.]*\d[^'\s.]*'")
#: The good side gets at least so many seconds, also where the other one hangs, which is known after fewer.
_GOOD_S = 10.0
#: Why a candidate cannot run.
NO_KERNEL = "no kernel can have its @main"
#: What tools say of IR that they cannot read.
_UNREADABLE = re.compile(r"does not parse|is not valid")


class Predicate(Protocol):
    """What tells whether a candidate shows a behaviour."""

    def refusal(self, candidate: Candidate | None, text: str, workers: Workers) -> str:
        """Return why a candidate does not show the behaviour; empty if it does. Raise InfrastructureError.

        ``candidate``: None for a text that is no module.
        """


def signature_of(ended: CandidateResult) -> Signature:
    """Return the signature of a failed candidate, without sizes of types, which a reduction changes."""
    outcome = ended.outcome
    word = Outcome(outcome["outcome"])
    diagnostics = outcome.get("diagnostics", "")
    failed = TestResult(
        id="", framework="", pipeline="", target="", workload="",
        outcome=word,
        stage=Stage(outcome["stage"]),
        expected=False,
        reason=outcome["reason"],
        step={"name": ended.label, "action": ""},
        signal=outcome.get("signal", ""),
        frame="" if word == Outcome.TIMED_OUT else innermost_frame(diagnostics),
    )  # fmt: skip
    found = behaviour(failed)
    return replace(found, details=tuple(_SIZES.sub("…", each) for each in found.details))


def _kind_of(failed: Signature) -> tuple[str, ...]:
    """Return what of a failure stays with ``by`` outcome: its word, its step, and whether that could read its input."""
    is_unreadable = any(_UNREADABLE.search(each) for each in failed.details)
    return failed.outcome, failed.step, failed.signal, str(is_unreadable)


@dataclass(frozen=True, kw_only=True)
class SameFailure:
    """A failure before any result: a crash, an error of the verifier or of a pass, a time-out.

    The good side, if there is one, must not fail. Then a kernel that crashes is no program whose behaviour is undefined.
    """

    side: Side
    good: Side | None = None
    wanted: Signature
    timeout_s: float
    kernel: KernelSignature | None = None
    #: What must be equal: the whole signature, or only the outcome.
    by: By = "behaviour"
    #: Whether the failure is that of a contract of a kind.
    held: bool = False

    @property
    def key(self) -> str:
        """The digest of what decides about candidates."""
        sides = [each and each.key for each in (self.side, self.good)]
        return digest_value([sides, str(self.wanted), self.by, self.held, self.kernel and asdict(self.kernel)])

    @property
    def sides(self) -> Sequence[Side]:
        """The actions that fail, and those that do not, if they are known."""
        return [self.side, self.good] if self.good else [self.side]

    def refusal(self, candidate: Candidate | None, text: str, workers: Workers) -> str:
        """See ``Predicate``."""
        ended = self.observe(candidate, text, workers)
        if ended is None:
            return NO_KERNEL
        if ended.ok:
            return "passes"
        found = signature_of(ended)
        # One release has symbols or none, so that a missing frame is another behaviour, unlike between releases.
        shows = found == self.wanted
        if self.by == "outcome":
            shows = _kind_of(found) == _kind_of(self.wanted)
        if not shows:
            return f"other failure: {found}"
        reason = self.failure_of_good(candidate, text, workers)
        return f"the good side fails, too: {reason}" if reason else ""

    def failure_of_good(self, candidate: Candidate | None, text: str, workers: Workers) -> str:
        """Return the reason of a failure on the good side; empty if there is none. Raise InfrastructureError."""
        if self.good is None:
            return ""
        ended = self._run(self.good, candidate, text, workers, max(self.timeout_s, _GOOD_S))
        if ended is None:
            return NO_KERNEL
        return "" if ended.ok else str(ended.outcome["reason"])

    def reference(self, candidate: Candidate, _interface: Interface, _text: str, _workers: Workers) -> str:
        """Return the reference of a candidate in NumPy. Raise Untranslatable."""
        return numpy_text(candidate.module)

    def with_passes(self, action: str, passes: str, *, patterns: bool) -> SameFailure:
        """Return the behaviour with another pipeline in an action, and without the patterns of its step if so wanted."""
        return replace(self, side=self.side.with_passes(action, passes, patterns=patterns))

    def observe(self, candidate: Candidate | None, text: str, workers: Workers) -> CandidateResult | None:
        """Return what becomes of a candidate; None if it has to run, and no kernel can have its ``@main``.

        Raise InfrastructureError.
        """
        return self._run(self.side, candidate, text, workers, self.timeout_s)

    def _run(
        self, side: Side, candidate: Candidate | None, text: str, workers: Workers, timeout_s: float
    ) -> CandidateResult | None:
        interface = interface_of(candidate, self.kernel) if self.kernel and candidate else None
        if side.runs and interface is None:
            return None
        read = side.text(candidate.module, text) if candidate else text
        files = {**side.files, CANDIDATE: read.encode()}
        ended = workers.run(side.requests(interface, held=self.held), files, timeout_s=timeout_s)
        return _of_the_code(ended)


@dataclass(frozen=True, kw_only=True)
class WrongNumbers:
    """Results outside of the bounds of a reference, or of the good side, which the good side keeps."""

    bad: Side
    good: Side | None
    kernel: KernelSignature
    #: Where no reference can be made from the IR itself: lowers it to linalg by steps that are right, and prints that.
    linalg: Side | None
    #: Where no reference can be made at all.
    bounds: DisagreementBounds
    timeout_s: float

    @property
    def key(self) -> str:
        """The digest of what decides about candidates."""
        sides = [each and each.key for each in (self.bad, self.good, self.linalg)]
        return digest_value([sides, asdict(self.kernel), asdict(self.bounds)])

    @property
    def sides(self) -> Sequence[Side]:
        """The actions that are wrong, and those that are right, if they are known."""
        return [self.bad, self.good] if self.good else [self.bad]

    def refusal(self, candidate: Candidate | None, text: str, workers: Workers) -> str:
        """See ``Predicate``."""
        if candidate is None:
            return "no module"
        interface = interface_of(candidate, self.kernel)
        if interface is None:
            return NO_KERNEL
        try:
            reference = self.reference(candidate, interface, text, workers).encode()
        except Untranslatable as error:
            if self.good is None:
                return str(error)
            return self._against_good(interface, candidate, text, workers)
        first = DRAWS[:1]
        ended = self._judged(self.bad, interface, candidate, text, {REFERENCE: reference}, workers, first)
        if why := _refusal(ended, wrong=True):
            return why
        if self.good is None:
            return ""
        ended = self._judged(self.good, interface, candidate, text, {REFERENCE: reference}, workers)
        return _refusal(ended, wrong=False)

    def reference(self, candidate: Candidate, interface: Interface, text: str, workers: Workers) -> str:
        """Return the reference of a candidate in NumPy. Raise Untranslatable, or InfrastructureError."""
        try:
            return numpy_text(candidate.module)
        except Untranslatable:
            if self.linalg is None:
                raise
        files = {**self.linalg.files, CANDIDATE: self.linalg.text(candidate.module, text).encode()}
        printed = self.linalg.output("generic")
        requests = self.linalg.requests(None)
        ended = _of_the_code(workers.run(requests, files, wanted=[printed], timeout_s=self.timeout_s))
        if not ended.ok:
            raise Untranslatable(f"the way to linalg fails: {ended.outcome['reason']}")
        try:
            lowered = parse(ended.files[printed].decode())
            named_inputs(lowered, [each["name"] for each in interface.inputs])
        except (ParseError, UsageError) as error:
            raise Untranslatable(str(error)) from None
        return numpy_text(lowered)

    def with_passes(self, action: str, passes: str, *, patterns: bool) -> WrongNumbers:
        """Return the behaviour with another pipeline in an action of the failing side, as ``SameFailure`` does."""
        return replace(self, bad=self.bad.with_passes(action, passes, patterns=patterns))

    def quick(self) -> WrongNumbers:
        """Return this behaviour by code that is not optimised."""
        return replace(self, bad=self.bad.quick(), good=self.good.quick() if self.good else None)

    def _against_good(self, interface: Interface, candidate: Candidate, text: str, workers: Workers) -> str:
        """Compare the bad side with the good one, with the bounds of both."""
        assert self.good is not None
        results = [each["name"] for each in interface.results]
        made = {result(name, draw): other(name, draw) for name in results for draw in DRAWS}
        files = {**self.good.files, CANDIDATE: self.good.text(candidate.module, text).encode()}
        requests = self.good.requests(interface)
        ended = _of_the_code(workers.run(requests, files, wanted=list(made), timeout_s=self.timeout_s))
        if not ended.ok:
            return f"the good side fails: {ended.outcome['reason']}"
        others = {made[path]: data for path, data in ended.files.items()}
        return _refusal(self._judged(self.bad, interface, candidate, text, others, workers), wrong=True)

    def _judged(
        self,
        side: Side,
        interface: Interface,
        candidate: Candidate,
        text: str,
        more: Mapping[str, bytes],
        workers: Workers,
        draws: Sequence[int] = DRAWS,
    ) -> CandidateResult:
        files = {**side.files, **more, CANDIDATE: side.text(candidate.module, text).encode()}
        judge = side.judges(interface, draws=draws, reference=REFERENCE in more, bounds=self.bounds)
        requests = [*side.requests(interface, draws=draws), judge]
        return _of_the_code(workers.run(requests, files, wanted=[VERDICT], timeout_s=self.timeout_s))


Behaviour = SameFailure | WrongNumbers


def _refusal(ended: CandidateResult, *, wrong: bool) -> str:
    """Return why a judged candidate is not as wanted: wrong on the bad side, right on the good one."""
    if not ended.ok:
        return f"{ended.label}: {ended.outcome['outcome']}: {ended.outcome['reason']}"
    verdict = json.loads(ended.files[VERDICT])
    if not verdict["comparable"]:
        return f"shows nothing: {verdict['reason']}"
    if verdict["wrong"] != wrong:
        return "right" if wrong else f"wrong on the good side, too: {verdict['reason']}"
    return ""


def _of_the_code(ended: CandidateResult) -> CandidateResult:
    """Return what became of a candidate. Raise InfrastructureError if this machine could not run it."""
    if ended.outcome["outcome"] == Outcome.INFRA_ERROR:
        raise InfrastructureError(f"a candidate could not run: {ended.outcome['reason']}")
    return ended
