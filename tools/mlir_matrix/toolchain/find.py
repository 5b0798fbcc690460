"""Find releases that the Python index or Debian has and no component file lists."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from mlir_matrix.base.errors import InfrastructureError
from mlir_matrix.base.text import apply, patch
from mlir_matrix.catalog.catalog import Entry, listed
from mlir_matrix.catalog.models.toolchains import Component
from mlir_matrix.catalog.releases import number
from mlir_matrix.environments.fetch import apt, pip
from mlir_matrix.environments.interpreter import SUPPORTED
from mlir_matrix.environments.package import Provider, filled, provider_of
from mlir_matrix.environments.session import Session
from mlir_matrix.toolchain.edits import added, plain, values_of

#: Names that a component file can list as they are: no candidates, no snapshots.
_NUMBERS = re.compile(r"\d+(\.\d+)*(\+[a-z0-9.]+)?")


@dataclass(frozen=True)
class FoundRelease:
    """A release that its component does not list."""

    component: Entry[Component]
    release: str
    #: Of a Debian package: where it is.
    suites: tuple[str, ...] = ()

    def patch(self) -> tuple[Path, str]:
        """Return the root of the component's catalog, and the patch that lists the release there, in its order."""
        entry = self.component
        path = entry.folder / f"{entry.name}.yaml"
        # As bytes, because the patch must match the line ends.
        text = path.read_bytes().decode()
        node = values_of(text)["releases"]
        # Other catalogs and --pin may add releases, which this file does not list.
        own = [release for owner, _, release in listed(entry) if owner is entry][: len(node.value)]
        older = [index for index, each in enumerate(own) if number(each.release) <= number(self.release)]
        last = max(older, default=len(own) - 1)
        suites = f", suites: [{', '.join(self.suites)}]" if self.suites else ""
        item = f"- {{release: {plain(self.release)}{suites}}}"
        edited = apply(text, [added(text, node, node.value[last], item)])
        return entry.root, patch(f"toolchains/components/{entry.name}.yaml", text, edited)


def find_release(session: Session, entry: Entry[Component], pinned: str) -> FoundRelease | None:
    """Return the newest release of a component outside its file; None if it lists that. Raise InfrastructureError.

    Only sources that have releases by themselves are asked: the Python index and Debian.
    """
    found = max(_offered(session, entry), key=lambda each: number(each.release), default=None)
    if found is None or not _NUMBERS.fullmatch(found.release):
        return None
    document = entry.document
    known = {number(each.release) for each in document.releases if provider_of(document, each) == document.provider}
    is_new = number(found.release) not in known and number(found.release) > number(pinned)
    return found if is_new else None


def _offered(session: Session, entry: Entry[Component]) -> Iterator[FoundRelease]:
    document = entry.document
    if document.provider == Provider.PYPI.value and not any(each.distributions for each in document.releases):
        yield FoundRelease(entry, pip.newest(document.distribution or entry.name, session.home, tag=SUPPORTED[0]))
    if document.provider != Provider.DEB.value:
        return
    last = [each for each in document.releases if each.suites and not each.version][-1:]
    for release in last:
        major = number(release.release)[0]
        # Packages that are called after their major release exist side by side.
        follows = any("{major}" in name for name in document.packages) and not any(
            "{minor}" in name for name in document.packages
        )
        for wanted in (f"{major + 1}", release.release) if follows else (release.release,):
            names = filled(document.packages, wanted)[:1]
            asked = apt.Asked(packages=names, suites=release.suites)
            try:
                packages = apt.solve(asked, state=session.home.cache / "apt")
            except InfrastructureError:
                if wanted == release.release:
                    raise
                # There is no next major release yet.
                continue
            version = next(each.version for each in packages if each.name == names[0])
            yield FoundRelease(entry, apt.upstream(version).partition("+")[0], release.suites)
