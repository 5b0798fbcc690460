"""Judge the carried patches at a new base: upstreamed, unneeded, needed, or in conflict."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from mlir_matrix.base.text import first_few
from mlir_matrix.bisect.commits import SHORT
from mlir_matrix.integrate.carried import Patch
from mlir_matrix.integrate.patched_trees import LeftOut
from mlir_matrix.integrate.upstream import UpstreamChanges
from mlir_matrix.integrate.walk import Probed

#: What a patch is at a base. ``unknown``: the time was over.
PatchState = Literal["upstreamed", "unneeded", "needed", "conflicts", "unknown"]


@dataclass(frozen=True, kw_only=True)
class PatchVerdict:
    """What a patch is at a base, and why."""

    patch: Patch
    state: PatchState
    reason: str
    #: The commit of upstream that has it, or since which it conflicts; empty if none is known.
    commit: str = ""
    #: Needed: the tests that fail without it.
    tests: tuple[str, ...] = ()
    #: True if it applies only by a merge, so that its text changes.
    refreshed: bool = False


#: Returns what a base shows with some patches, and those that do not apply then.
Trial = Callable[[Sequence[Patch]], tuple[Probed, Mapping[str, LeftOut]]]


def judge_patches(
    patches: Sequence[Patch],
    upstream: UpstreamChanges,
    line: Sequence[str],
    trial: Trial,
    before: Collection[str],
    *,
    late: bool = False,
) -> list[PatchVerdict]:
    """Return what carried patches are at the last commit of a line.

    ``trial`` tries patches there. ``before``: tests that are broken anyway. ``late``: no patch may be tried any more.
    """
    applied = upstream.trees.apply(line[-1], patches)
    if late:
        why = "the time was over before it was tried"
        judged = [PatchVerdict(patch=each, state="unknown", reason=why) for each in applied.patches]
    else:
        judged = _judge_needed(applied.patches, trial, before)
    by_name = {each.patch.name: each for each in judged}
    found, earlier = list[PatchVerdict](), list[Patch]()
    for patch in patches:
        if patch.name in applied.left_out:
            found.append(_left_out(patch, applied.left_out[patch.name], upstream, line, earlier))
            continue
        verdict = by_name[patch.name]
        # The verdict's patch has the text with which it applies.
        earlier.append(verdict.patch)
        found.append(replace(verdict, patch=patch, refreshed=verdict.patch.text != patch.text))
    return found


def _left_out(
    patch: Patch, left: LeftOut, upstream: UpstreamChanges, line: Sequence[str], earlier: Sequence[Patch]
) -> PatchVerdict:
    """Return the verdict of a patch that is not applied at the last commit of a line, after earlier ones."""
    landed = upstream.landed(patch)
    if landed and upstream.repository.succeeds("merge-base", "--is-ancestor", landed, line[-1]):
        return PatchVerdict(patch=patch, state="upstreamed", reason=upstream.repository.subject(landed), commit=landed)
    since = upstream.since(patch, line, earlier)
    if left.is_there:
        reason = (
            f"{upstream.repository.subject(since)} (what it changes is there since)"
            if since
            else "it was there at the start"
        )
        return PatchVerdict(patch=patch, state="upstreamed", reason=reason, commit=since)
    where = "; ".join(left.where) or ", ".join(patch.files)
    when = f"since {since[:SHORT]} {upstream.repository.subject(since)}" if since else "as at the start"
    reason = f"{where}, {when}; everything expected holds without it"
    return PatchVerdict(patch=patch, state="conflicts", reason=reason, commit=since)


def _judge_needed(patches: Sequence[Patch], trial: Trial, before: Collection[str]) -> list[PatchVerdict]:
    """Return which of the patches that apply at a base are needed.

    All that are unneeded can be left out together, because each is tried without those that were found unneeded before it. The
    last is tried first: it may rest on earlier ones.
    """
    found: dict[str, PatchVerdict] = {}
    kept = list(patches)
    if len(patches) > 1 and not _fails(trial([])[0], before):
        kept = []
    for patch in reversed(kept):
        rest = [each for each in kept if each is not patch]
        probed, left_out = trial(rest)
        resting = [each.name for each in rest if each.name in left_out]
        reason = f"{', '.join(resting)} rests on it" if resting else _fails(probed, before)
        if not reason:
            kept = rest
            continue
        tests = () if resting else tuple(sorted(probed.broken.keys() - set(before)))
        found[patch.name] = PatchVerdict(patch=patch, state="needed", reason=reason, tests=tests)
    for patch in patches:
        holds = PatchVerdict(patch=patch, state="unneeded", reason="everything expected holds without it")
        found.setdefault(patch.name, holds)
    return [found[patch.name] for patch in patches]


def _fails(probed: Probed, before: Collection[str]) -> str:
    """Return what does not hold; empty if everything does."""
    if probed.unbuildable:
        return f"without it: {probed.unbuildable}"
    broken = sorted(probed.broken.keys() - set(before))
    if not broken:
        return ""
    return f"without it: {first_few(broken, 1)}: {probed.broken[broken[0]]}"
