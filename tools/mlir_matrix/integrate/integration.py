"""Find the furthest green commit, what broke on the way and why, and what became of the carried patches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from mlir_matrix.base.errors import UsageError
from mlir_matrix.bisect.commits import SHORT, Commits
from mlir_matrix.golden.costs import CellCosts
from mlir_matrix.integrate.carried import Patch, revert_of
from mlir_matrix.integrate.patched_trees import LeftOut
from mlir_matrix.integrate.renames import Rename, find_rename, renamed
from mlir_matrix.integrate.trials import Trials, Tried, probed
from mlir_matrix.integrate.upstream import UpstreamChanges
from mlir_matrix.integrate.verdicts import PatchVerdict, Trial, judge_patches
from mlir_matrix.integrate.walk import Break, LateError, Probed, Walk

#: What has to change after a break: upstream, a carried patch, or what the catalog says of tools and tests.
Fault = Literal["upstream", "patch", "catalog"]
#: How many times new breaks may appear behind those that were reverted.
_ROUNDS = 8


@dataclass(frozen=True, kw_only=True)
class ExplainedBreak:
    """A break, and whose fault it is."""

    found: Break
    fault: Fault
    #: Why, in a sentence.
    because: str
    #: The carried patch that breaks it, or that it needs and that conflicts.
    patch: str = ""
    #: The reverts with which it was found, because other breaks hid it.
    behind: tuple[str, ...] = ()
    #: What was tried at the commit that shows it, and at the newest one before that does not.
    tried: Tried
    good: Tried


@dataclass(frozen=True, kw_only=True)
class Reverted:
    """The newest commit that can be built, with reverts of the culprits."""

    commit: str
    reverts: tuple[Patch, ...]
    #: Why it is not green; empty if it is.
    trouble: str = ""


@dataclass(kw_only=True)
class Integration:
    """What ``matrix integrate`` finds."""

    commits: Commits
    upstream: UpstreamChanges
    trials: Trials
    patches: Sequence[Patch]
    walk: Walk = field(init=False)
    #: The furthest green commit.
    best: int = field(init=False)
    #: What follows names that changed: the commit that changed one, the change, and trials with it.
    renames: list[tuple[int, Rename, Trials]] = field(default_factory=list)
    breaks: list[ExplainedBreak] = field(default_factory=list)
    verdicts: list[PatchVerdict] = field(default_factory=list)
    reverted: Reverted | None = None
    #: The golden costs that differ at the commit to pin, with the patches that are kept.
    costs: list[CellCosts] = field(default_factory=list)
    #: True if something was not tried, because the time was over.
    late: bool = False

    def run(self, *, reverting: bool, costs: bool) -> None:
        """Find all of it. Raise UsageError if the start cannot be built.

        ``reverting``: also try the newest commit with reverts. ``costs``: compare golden costs at the commit to pin.
        """
        self.walk = self._walk()
        start = self.walk.at(self.commits.good)
        if start.unbuildable:
            raise UsageError(f"the walk cannot begin at {self._name(self.commits.good)}: {start.unbuildable}")
        self.best = self.walk.run()
        while self._follow_rename():
            # A commit before the change shows what it showed.
            self.walk = self._walk()
            self.best = self.walk.run()
        self.breaks = [self._explained(each, ()) for each in self.walk.breaks]
        self.breaks.sort(key=lambda each: each.found.candidates)
        self.verdicts = self._judge_patches()
        if reverting and self.breaks:
            self.reverted = self._with_reverts()
        self._try_without_unneeded()
        if costs and (self.target != self.commits.good or any(each.state == "unneeded" for each in self.verdicts)):
            self.costs = self._compare_costs()

    @property
    def is_complete(self) -> bool:
        """Return whether the time sufficed."""
        return not (self.late or self.walk.late or any(each.state == "unknown" for each in self.verdicts))

    @property
    def carried_reverts(self) -> tuple[Patch, ...]:
        """The reverts with which the newest commit is green; none if it is not, or needs none."""
        return self.reverted.reverts if self.reverted and not self.reverted.trouble else ()

    @property
    def target(self) -> int:
        """The commit to pin: the furthest green one, or the newest with reverts."""
        return self.commits.bad if self.carried_reverts else self.best

    @property
    def at_target(self) -> Tried:
        """What the commit to pin shows with all patches and reverts."""
        return self.tried_at(self.target, self.carried_reverts)

    def _walk(self, reverts: Sequence[Patch] = ()) -> Walk:
        """Return a walk over all commits, with reverts and the carried patches."""
        return Walk(commits=self.commits, probe=lambda point: probed(self.tried_at(point, reverts)))

    def tried_at(self, point: int, reverts: Sequence[Patch] = ()) -> Tried:
        """Return what a commit shows with reverts and the carried patches. Raise LateError if it is not known."""
        return self.trials_at(point).at(self.commits.ids[point], [*reverts, *self.patches])

    def trials_at(self, point: int) -> Trials:
        """Return the trials for a commit: with the steps that follow what was renamed before it."""
        found = [trials for culprit, _, trials in self.renames if self.walk.contains(point, [culprit])]
        return found[-1] if found else self.trials

    def _follow_rename(self) -> bool:
        """Follow the first name that changed on the way, if what it broke then holds; return whether there is one."""
        try:
            return self._find_and_follow()
        except LateError:
            self.late = True
            return False

    def _find_and_follow(self) -> bool:
        for found in sorted(self.walk.breaks, key=lambda each: each.candidates):
            tried = self.tried_at(found.shown_at)
            results = tried.results_of(found.tests)
            if not results:
                continue
            trials = self.trials_at(found.shown_at)
            before = self.tried_at(found.last_good).prefix
            texts = {each.path: each.text for _, each, _ in self.renames}
            rename = find_rename(trials.session, results[0], before, tried.prefix, texts)
            if rename is None:
                continue
            following = replace(trials, session=renamed(trials.session, rename), tried={})
            after = following.at(self.commits.ids[found.shown_at], self.patches)
            if not set(found.tests) & after.broken.keys():
                self.renames.append((max(found.candidates), rename, following))
                return True
        return False

    def _name(self, point: int) -> str:
        return f"{self.commits.ids[point][:SHORT]} {self.commits.subjects[point]}"

    def _explained(self, found: Break, reverts: Sequence[Patch]) -> ExplainedBreak:
        """Return whose fault a break is: tried without carried patches, where these apply."""
        commit = self.commits.ids[found.shown_at]
        tried = self.tried_at(found.shown_at, reverts)
        good = self.tried_at(found.last_good, reverts)
        behind = tuple(each.subject for each in reverts)
        carried = [each for each in tried.applied.patches if each.name in {patch.name for patch in self.patches}]

        def explained(fault: Fault, because: str, patch: str = "") -> ExplainedBreak:
            return ExplainedBreak(
                found=found, fault=fault, because=because, patch=patch, behind=behind, tried=tried, good=good
            )

        lost = self._newly_conflicting(found, reverts, tried.applied.left_out)
        if lost:
            where = "; ".join(tried.applied.left_out[lost].where)
            return explained("patch", f"{lost}, which applied before, conflicts here: {where}", lost)
        without = self.trials_at(found.shown_at).trial_at(commit, reverts)
        try:
            guilty = _guilty(found, carried, without)
        except LateError:
            self.late = True
            return explained("upstream", "the time was over before it was tried without carried patches")
        if guilty is not None:
            name = ", ".join(each.name for each in guilty)
            return explained("patch", f"without {name} it holds at this commit", name)
        if any(result.outcome == "unsupported" for result in tried.results_of(found.tests)):
            return explained("catalog", "nothing in the catalog says how to do this with this release")
        return explained("upstream", "it fails without carried patches, too" if self.patches else "")

    def _newly_conflicting(self, found: Break, reverts: Sequence[Patch], left_out: Mapping[str, LeftOut]) -> str:
        """Return the patch that conflicts where a break shows, and applied where it did not."""
        before = self.trials.trees.apply(self.commits.ids[found.last_good], [*reverts, *self.patches])
        applied = {each.name for each in before.patches}
        return next((name for name, left in left_out.items() if not left.is_there and name in applied), "")

    def _judge_patches(self) -> list[PatchVerdict]:
        base = self.walk.line.index(self.best)
        line = [self.commits.ids[point] for point in self.walk.line[: base + 1]]
        trial = self.trials_at(self.best).trial_at(line[-1])
        try:
            return judge_patches(self.patches, self.upstream, line, trial, self.walk.before)
        except LateError:
            return judge_patches(self.patches, self.upstream, line, trial, self.walk.before, late=True)

    def _try_without_unneeded(self) -> None:
        """Try what is proposed: the commit to pin without all unneeded patches. Keep these if that is not green."""
        unneeded = [each for each in self.verdicts if each.state == "unneeded"]
        commit = self.commits.ids[self.target]
        try:
            holds = probed(self.trials_at(self.target).at(commit, self._kept())).holds(self.walk.before)
        except LateError:
            holds, self.late = False, True
        if unneeded and not holds:
            why = f"nothing needs it at {self._name(self.best)}, but {self._name(self.target)} is not known to hold without it"
            changed = {each.patch.name: replace(each, state="needed", reason=why) for each in unneeded}
            self.verdicts = [changed.get(each.patch.name, each) for each in self.verdicts]

    def _kept(self) -> list[Patch]:
        """Return reverts and patches, without those that nothing needs."""
        unneeded = {each.patch.name for each in self.verdicts if each.state == "unneeded"}
        return [*self.carried_reverts, *(patch for patch in self.patches if patch.name not in unneeded)]

    def _compare_costs(self) -> list[CellCosts]:
        """Return the golden costs that differ at the commit to pin, with the patches that are kept."""
        try:
            return self.trials_at(self.target).costs_at(self.commits.ids[self.target], self._kept())
        except LateError:
            self.late = True
            return []

    def _with_reverts(self) -> Reverted:
        """Revert each culprit of upstream at the newest commit, until all holds or one cannot be reverted."""
        reverts = list[Patch]()
        try:
            return self._revert(reverts)
        except LateError:
            self.late = True
            return self._failed(self.commits.bad, reverts, "the time was over")

    def _revert(self, reverts: list[Patch]) -> Reverted:
        todo: Sequence[ExplainedBreak] = self.breaks
        top = self.commits.bad
        for _ in range(_ROUNDS):
            trouble = next(filter(None, map(_not_revertible, todo)), "")
            if trouble:
                return self._failed(top, reverts, trouble)
            # The newest first, so that each is reverted before what it rests on.
            for culprit in sorted({each.found.candidates[0] for each in todo}, reverse=True):
                commit, subject = self.commits.ids[culprit], self.commits.subjects[culprit]
                reverts.append(revert_of(self.commits.repository, commit, subject, len(reverts) + 1))
            walk = self._walk(reverts)
            walk.before = self.walk.before
            seen = walk.at(top)
            left = self.tried_at(top, reverts).applied.left_out
            stuck = next((each for each in reverts if each.name in left and not left[each.name].is_there), None)
            if stuck is not None:
                return self._failed(top, reverts, f"{stuck.subject} conflicts: {'; '.join(left[stuck.name].where)}")
            if seen.holds(walk.before):
                return Reverted(commit=self.commits.ids[top], reverts=tuple(reverts))
            walk.run()
            if walk.late:
                raise LateError
            todo = [self._explained(each, reverts) for each in walk.breaks]
            self.breaks += todo
        return self._failed(top, reverts, f"there are new breaks after {_ROUNDS} rounds")

    def _failed(self, top: int, reverts: Sequence[Patch], trouble: str) -> Reverted:
        return Reverted(commit=self.commits.ids[top], reverts=tuple(reverts), trouble=trouble)


def _not_revertible(each: ExplainedBreak) -> str:
    """Return why no revert of a commit mends a break; empty if one may."""
    if each.fault != "upstream":
        return f"no commit of upstream is at fault: {each.because}"
    count = len(each.found.candidates)
    return f"one of {count} commits is the culprit; which one is not known" if count > 1 else ""


def _guilty(found: Break, carried: Sequence[Patch], without: Trial) -> Sequence[Patch] | None:
    """Return the carried patch without which a commit does not show a break, else all if none shows it; None if it does."""
    if not carried or _shows(found, without([])[0]):
        return None
    for patch in reversed(carried):
        others = [each for each in carried if each is not patch]
        if not _shows(found, without(others)[0]):
            return [patch]
    return carried


def _shows(found: Break, seen: Probed) -> bool:
    """Return whether a commit may show a break: one that cannot be built tells nothing of tests."""
    if seen.unbuildable:
        return True
    return any(test in seen.broken for test in found.tests)
