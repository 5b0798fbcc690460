"""Say what is known of a test that went bad although no commit and no release differs."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mlir_matrix.history.documents import FirstBadTest, RecordedRun


def unexplained(test: FirstBadTest, good: RecordedRun) -> str:
    """Return what differs between the last good run of a test and its first bad one, as far as the history tells."""
    bad = test["first_bad"]
    if good["host"] != bad["host"]:
        return f"the machine differs: {good['host']}, {bad['host']}"
    if good["version"] != bad["version"]:
        return f"mlir-matrix {good['version']} → {bad['version']}"
    if test["inputs_differ"] is None:
        return "whether its inputs differ is not recorded"
    if not test["inputs_differ"]:
        return "no recorded input differs; see: matrix history show --flaky"
    # The first catalog is the program's own: its commit or the version tells.
    catalogs = bad["catalogs"][1:] or bad["catalogs"]
    folders = [each["folder"] for each in catalogs if not each["commit"]]
    if not folders:
        return "its inputs differ; which is not recorded"
    verb = "is" if len(folders) == 1 else "are"
    return f"its inputs differ; which files is not known, because {' and '.join(folders)} {verb} not in git"
