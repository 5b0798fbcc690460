"""Make the changes of a catalog's files that an integration proposes, each as one commit would have them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from mlir_matrix.base.text import apply
from mlir_matrix.bisect.commits import SHORT
from mlir_matrix.catalog.catalog import Catalog, Entry
from mlir_matrix.catalog.load import KNOWN_GOOD
from mlir_matrix.catalog.models.toolchains import Component
from mlir_matrix.environments.package import Provider
from mlir_matrix.environments.source.package import COMMIT_MARK
from mlir_matrix.golden.costs import CellCosts, edited_files
from mlir_matrix.golden.documents import NewCost
from mlir_matrix.integrate.carried import Patch
from mlir_matrix.integrate.coupled import CoupledRelease
from mlir_matrix.integrate.patched_trees import AppliedPatches
from mlir_matrix.integrate.verdicts import PatchVerdict
from mlir_matrix.toolchain.edits import added, plain, replaced, values, values_of
from mlir_matrix.toolchain.roll import by_root, edited


@dataclass(frozen=True, kw_only=True)
class FileCommit:
    """A commit: its message, and the texts of files by path. None: the file is removed."""

    subject: str
    body: str
    files: Mapping[Path, bytes | None]


@dataclass(frozen=True, kw_only=True)
class PinnedCommit:
    """The release that a commit becomes in the file of its component."""

    component: str
    release: str
    commit: str
    subject: str
    #: The release that was pinned before.
    replaces: str
    #: The releases of other components that go with it.
    others: Mapping[str, CoupledRelease]


def pin_commit(catalog: Catalog, pinned: PinnedCommit, patches: str) -> FileCommit:
    """Return the change that lists a release, and pins it with those that go with it.

    ``patches``: the folder of the catalog that the build has to name; empty: that which it names.
    """
    entry = catalog.components[pinned.component]
    path = _file(entry)
    text = _with_release(entry, pinned.release, pinned.commit, pinned.replaces)
    files: dict[Path, bytes | None] = {path: (_with_patches(text, patches) if patches else text).encode()}
    for name, other in pinned.others.items():
        if other.commit:
            coupled = catalog.components[name]
            now = catalog.default_pins("")[name]
            files[_file(coupled)] = _with_release(coupled, other.release, other.commit, now).encode()
    releases = {name: each.release for name, each in pinned.others.items()}
    known = {each.root: each.folder / KNOWN_GOOD for each in catalog.known_good}
    for root, pins in by_root(catalog, {pinned.component: pinned.release, **releases}).items():
        file = known.get(root, root / "toolchains" / KNOWN_GOOD)
        before = file.read_bytes().decode() if file.exists() else "pins: {}\n"
        files[file] = edited(before, pins, None).encode()
    subject = f"Pin {pinned.component} {pinned.release}"
    others = "".join(f"\nwith {name} {release}" for name, release in releases.items())
    return FileCommit(subject=subject, body=f"{pinned.commit} {pinned.subject}{others}", files=files)


def _file(entry: Entry[Component]) -> Path:
    return entry.folder / f"{entry.name}.yaml"


def _with_release(entry: Entry[Component], release: str, commit: str, pinned: str) -> str:
    """Return a component's file with a release. It takes the place of the pinned one if that is a commit, too."""
    text = _file(entry).read_bytes().decode()
    releases = values_of(text)["releases"]
    listed = {each["release"].value: each for each in map(values, releases.value)}
    if release in listed:
        return text
    old = listed.get(pinned, {})
    if COMMIT_MARK in pinned and "commit" in old:
        return apply(text, [replaced(old["release"], plain(release)), replaced(old["commit"], plain(commit))])
    source = "" if entry.document.provider == Provider.SOURCE.value else ", provider: source"
    item = f"- {{release: {plain(release)}{source}, commit: {commit}, programs: [bin]}}"
    return apply(text, [added(text, releases, releases.value[-1], item)])


def _with_patches(text: str, folder: str) -> str:
    """Return a component's file whose build names a folder of patches."""
    build = values_of(text)["build"]
    keys = values(build)
    if "patches" in keys:
        return apply(text, [replaced(keys["patches"], plain(folder))])
    # Not after the last key, which may be a text of several lines.
    return apply(text, [added(text, build, keys["repository"], f"patches: {plain(folder)}")])


def cost_files(cells: Sequence[CellCosts]) -> FileCommit:
    """Return the change of golden costs."""
    lines = [f"{cell.test.id}: {_cost_line(cost)}" for cell in cells for cost in cell.costs]
    files: dict[Path, bytes | None] = {path: text.encode() for path, text in edited_files(cells).items()}
    return FileCommit(subject="Update golden costs", body="\n".join(lines), files=files)


def _cost_line(cost: NewCost) -> str:
    if cost["golden"] is None:
        return f"{cost['cost']} {cost['value']}, which is new"
    return f"{cost['cost']} {cost['golden']} -> {cost['value']}"


def together(subject: str, parts: Sequence[FileCommit]) -> FileCommit:
    """Return one change of several that hold only together: its message has those of all."""
    files: dict[Path, bytes | None] = {}
    for each in parts:
        files |= each.files
    body = "\n\n".join(f"{each.subject}\n{each.body}" for each in parts)
    return FileCommit(subject=subject, body=body, files=files)


def carried_files(folder: Path, verdicts: Sequence[PatchVerdict], applied: AppliedPatches) -> Iterator[FileCommit]:
    """Yield how the files of carried patches follow a new base: those that are gone, those with another text, new reverts."""
    before = {each.patch.name: each.patch.text for each in verdicts}
    for each in verdicts:
        if each.patch.name in applied.left_out:
            commit = f"{each.commit[:SHORT]} " if each.state == "upstreamed" else ""
            # The newest commit with reverts may have a patch that the furthest green one has not.
            judged = each.state in ("upstreamed", "conflicts")
            yield FileCommit(
                subject=f"Drop {each.patch.name}: {each.state if judged else 'not applied at this commit'}",
                body=f"{commit}{each.reason}",
                files={folder / each.patch.name: None},
            )
    for patch in applied.patches:
        if patch.name not in before:
            yield FileCommit(subject=f"Carry {patch.name}", body=patch.subject, files={folder / patch.name: patch.text})
        elif patch.text != before[patch.name]:
            reason = "It applied only by a merge."
            yield FileCommit(subject=f"Refresh {patch.name}", body=reason, files={folder / patch.name: patch.text})


def unneeded_files(
    folder: Path,
    unneeded: Sequence[Patch],
    carried: Sequence[Patch],
    apply: Callable[[Sequence[Patch]], AppliedPatches],
) -> Iterator[FileCommit]:
    """Yield a change for each patch that nothing needs: apart from the others, so that it can be kept.

    ``carried``: all patches, with those that are dropped; ``apply`` applies some at the base. Later patches may get another text.
    """
    applied = apply(carried)
    for dropped in unneeded:
        carried = [each for each in carried if each.name != dropped.name]
        rest = apply(carried)
        texts = {each.name: each.text for each in applied.patches}
        files: dict[Path, bytes | None] = {
            folder / each.name: each.text for each in rest.patches if each.text != texts[each.name]
        }
        yield FileCommit(
            subject=f"Drop {dropped.name}, which no test needs",
            body=f"{dropped.subject}\n\nEverything expected holds without it.",
            files={folder / dropped.name: None, **files},
        )
        applied = rest
