"""Random carried patches on a repository of text files, with the verdict that each has to get."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from mlir_matrix.bisect.commits import Commits, list_commits
from mlir_matrix.environments.source.repository import Repository
from mlir_matrix.integrate.carried import Patch
from mlir_matrix.integrate.patched_trees import LeftOut, PatchedTrees
from mlir_matrix.integrate.walk import Probed
from support.upstreams import Upstream

#: A file has so many lines; a patch changes some of them.
_LINES = 40


@dataclass
class PatchCase:
    """A repository, patches, and what they are at its newest commit."""

    upstream: Upstream
    draw: random.Random
    patches: list[Patch] = field(default_factory=list)
    expected: dict[str, str] = field(default_factory=dict)
    #: Lines that files need to have, by test: one of each group.
    required: dict[str, tuple[str, tuple[str, ...]]] = field(default_factory=dict)
    #: What upstream does later: subject and change of a file.
    later: list[tuple[str, str, Callable[[str], str]]] = field(default_factory=list)

    def trees(self, objects: Path) -> PatchedTrees:
        return PatchedTrees(Repository(str(self.upstream.folder), self.upstream.folder / ".git"), objects)

    def commits(self, trees: PatchedTrees) -> Commits:
        return list_commits(trees.repository, self.upstream.commits[0], self.upstream.commits[-1])

    def trial(
        self, trees: PatchedTrees, commit: str
    ) -> Callable[[Sequence[Patch]], tuple[Probed, Mapping[str, LeftOut]]]:
        """Return a trial whose tests look for lines in files."""

        def trial(patches: Sequence[Patch]) -> tuple[Probed, Mapping[str, LeftOut]]:
            applied = trees.apply(commit, patches)
            broken = {}
            for test, (file, lines) in self.required.items():
                text = trees.filtered(b"", "show", f"{applied.tree}:{file}").splitlines()
                if not set(lines) & set(text):
                    broken[test] = f"{file} lacks {lines[0]}"
            return Probed(broken=broken), applied.left_out

        return trial

    def add(self, kind: str) -> None:
        """Add a patch, or several that belong together, in a file of its own."""
        number = len(self.patches) + 1
        file = f"{kind}-{number}.txt"
        self.upstream.commit(f"Add {file}", {file: "".join(f"{file} line {each}\n" for each in range(_LINES))})
        place = self.draw.randrange(5, _LINES - 5)
        line = f"patched by {number}"
        mend = _replaced(file, place, line)
        getattr(self, f"_{kind}")(number, file, place, line, mend)

    def finish(self) -> None:
        """Make what upstream does after the patches were written, among other commits."""
        self.upstream.commit("Begin")
        self.upstream.commits = [self.upstream.commits[-1]]
        for subject, file, change in self.later:
            for _ in range(self.draw.randrange(3)):
                self.upstream.commit("Other", {f"other-{len(self.upstream.commits)}": "x\n"})
            text = (self.upstream.folder / file).read_text()
            self.upstream.commit(subject, {file: change(text)})
        self.upstream.commit("End")

    def _carry(self, number: int, file: str, change: Callable[[str], str], verdict: str, subject: str = "") -> None:
        text = change((self.upstream.folder / file).read_text())
        name, patch = self.upstream.patch(subject or f"Patch {number}", {file: text}, number)
        self.patches.append(Patch(name, patch.encode()))
        self.expected[name] = verdict

    def _needed(self, number: int, file: str, place: int, line: str, mend: Callable[[str], str]) -> None:
        self._carry(number, file, mend, "needed")
        self.required[f"t{number}"] = file, (line,)
        self._touch_elsewhere(file, place)

    def _unneeded(self, number: int, file: str, place: int, line: str, mend: Callable[[str], str]) -> None:
        self._carry(number, file, mend, "unneeded")
        self._touch_elsewhere(file, place)

    def _upstreamed(self, number: int, file: str, place: int, line: str, mend: Callable[[str], str]) -> None:
        self._carry(number, file, mend, "upstreamed")
        self.required[f"t{number}"] = file, (line, f"{line} and more")
        self.later.append((f"Upstream says it otherwise {number}", file, mend))
        if self.draw.random() < 0.5:
            self._touch_elsewhere(file, place)

    def _amended(self, number: int, file: str, place: int, line: str, mend: Callable[[str], str]) -> None:
        """Upstream took it in another form, under the same subject."""
        self._carry(number, file, mend, "upstreamed", f"Mend number {number}")
        self.required[f"t{number}"] = file, (line, f"{line} and more")
        self.later.append((f"Mend number {number}", file, _replaced(file, place, f"{line} and more")))

    def _taken_back(self, number: int, file: str, place: int, line: str, mend: Callable[[str], str]) -> None:
        """Upstream took it, and reverted it."""
        self._carry(number, file, mend, "needed")
        self.required[f"t{number}"] = file, (line,)
        self.later.append((f"Take {number}", file, mend))
        self.later.append((f'Revert "Take {number}"', file, _replaced_text(line, f"{file} line {place}")))

    def _conflicts(self, number: int, file: str, place: int, line: str, mend: Callable[[str], str]) -> None:
        self._carry(number, file, mend, "conflicts")
        self.later.append((f"Rewrite {number}", file, _replaced(file, place, "rewritten")))

    def _resting(self, number: int, file: str, place: int, line: str, mend: Callable[[str], str]) -> None:
        """The second changes what the first has added, and only the second is needed for itself."""
        name, patch = self.upstream.patch(
            f"Patch {number}", {file: mend((self.upstream.folder / file).read_text())}, number
        )
        self.upstream.commit("Step", {file: mend((self.upstream.folder / file).read_text())})
        second = _replaced_text(line, f"{line}, changed")
        then = self.upstream.patch(
            f"Patch {number + 1}", {file: second((self.upstream.folder / file).read_text())}, number + 1
        )
        self.upstream.git("reset", "-q", "--hard", "HEAD~1")
        self.upstream.commits.pop()
        for each, text in ((name, patch), then):
            self.patches.append(Patch(each, text.encode()))
            self.expected[each] = "needed"
        self.required[f"t{number}"] = file, (f"{line}, changed",)

    def _either(self, number: int, file: str, place: int, line: str, mend: Callable[[str], str]) -> None:
        """One of two patches suffices; the later one is left out."""
        other = f"{file} line 0, by the second"
        self._carry(number, file, mend, "needed")
        self._carry(number + 1, file, _replaced(file, 0, other), "unneeded")
        self.required[f"t{number}"] = file, (line, other)

    def _touch_elsewhere(self, file: str, place: int) -> None:
        """Upstream changes another line of the file, at a distance at which git merges."""
        others = [each for each in range(_LINES) if abs(each - place) > 8]
        self.later.append((f"Touch {file}", file, _replaced(file, self.draw.choice(others), "touched")))


KINDS = ("needed", "unneeded", "upstreamed", "amended", "taken_back", "conflicts", "resting", "either")


def make_case(folder: Path, seed: int, count: int) -> PatchCase:
    """Make a case with ``count`` patches, of all kinds in random order."""
    draw = random.Random(seed)
    case = PatchCase(Upstream(folder), draw)
    order = list(KINDS)
    draw.shuffle(order)
    while len(case.patches) < count:
        case.add(order[len(case.patches) % len(order)] if len(case.patches) < len(order) else draw.choice(KINDS))
    draw.shuffle(case.later)
    # What takes something back comes after it.
    case.later.sort(key=lambda each: each[0].startswith("Revert"))
    case.finish()
    return case


def _replaced(file: str, place: int, line: str) -> Callable[[str], str]:
    return _replaced_text(f"{file} line {place}", line)


def _replaced_text(old: str, new: str) -> Callable[[str], str]:
    return lambda text: "".join(f"{new if line == old else line}\n" for line in text.splitlines())
