"""What an integration proposes for the files of catalogs: they load, and name what was tried."""

from __future__ import annotations

from pathlib import Path

import pytest

from mlir_matrix.integrate.branch import by_place, make_branch, patch_lines, repository_of
from mlir_matrix.integrate.changes import FileCommit, PinnedCommit, pin_commit
from mlir_matrix.integrate.coupled import CoupledRelease
from mlir_matrix.plan.session import open_session
from support.downstream import Downstream
from support.machine import needs
from support.upstreams import Upstream, write_catalog

pytestmark = needs("git")

NEWER = "b" * 40
#: The last key of a build is a text of several lines.
SCRIPT = "  command: |\n    sh build\n"


@pytest.mark.parametrize("script", ["", SCRIPT])
def test_pinned_commits_are_listed_where_their_components_are(tmp_path: Path, script: str) -> None:
    upstream = Upstream(tmp_path / "upstream")
    upstream.commit("First", {"a": "x\n"})
    catalog = Downstream(tmp_path / "catalog")
    write_catalog(catalog, upstream, ["a"])
    catalog.write("patches/0001-x.patch", "")
    file = catalog.root / "toolchains/components/tool.yaml"
    if script:
        lines = [line for line in file.read_text().splitlines(keepends=True) if "command:" not in line]
        place = next(index for index, line in enumerate(lines) if line.startswith("releases:"))
        file.write_text("".join([*lines[:place], script, *lines[place:]]))
    catalog.write("toolchains/components/other.yaml", file.read_text().replace("tools: [tool]", "tools: [other]"))
    loaded = open_session(catalogs=[catalog.root]).catalog
    pinned = PinnedCommit(
        component="tool", release=f"1.1.0+git.{NEWER[:12]}", commit=NEWER, subject="Newer",
        replaces=loaded.default_pins("")["tool"], others={"other": CoupledRelease(f"2.0.0+git.{NEWER[:12]}", NEWER)},
    )  # fmt: skip
    change = pin_commit(loaded, pinned, "patches")
    ((place, ours),) = by_place([change], loaded.roots).items()
    assert place == catalog.root
    assert "+++ b/toolchains/components/other.yaml" in "".join(patch_lines(place, ours))
    for path, text in change.files.items():
        assert text is not None
        path.write_bytes(text)
    after = open_session(catalogs=[catalog.root]).catalog
    assert after.default_pins("")["tool"] == pinned.release
    assert after.default_pins("")["other"] == pinned.others["other"].release
    assert [each.commit for each in after.components["tool"].document.releases] == [NEWER]
    build = after.components["tool"].document.build
    assert build is not None
    assert (build.patches, bool(build.command)) == ("patches", True)


def test_a_branch_with_the_same_files_is_taken_again(tmp_path: Path) -> None:
    made = Upstream(tmp_path / "made")
    made.commit("First", {"a": "x\n"})
    repository = repository_of(made.folder)
    assert repository is not None

    def branch(text: bytes) -> str:
        change = FileCommit(subject="Change a", body="", files={made.folder.resolve() / "a": text})
        return make_branch(repository, "proposed", [change], tmp_path / "index").name

    assert [branch(text) for text in (b"y\n", b"y\n", b"z\n", b"z\n")] == [
        "proposed", "proposed", "proposed-2", "proposed-2"
    ]  # fmt: skip
