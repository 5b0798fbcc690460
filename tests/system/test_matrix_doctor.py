"""``matrix doctor`` as people and programs call it, where nothing is fetched, where all is, and where archives were removed."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support import rolling
from support.fake_index import open_rolling
from support.workspace import Workspace


@pytest.fixture
def patient(tmp_path: Path, environments: Any) -> Iterator[Workspace]:
    """Where the pinned release of ``tool`` will vanish."""
    rolls = rolling.component("tool", "1.0").replace("[sid]", "[sid], durability: rolling")
    texts = {**rolling.files("1.0"), "toolchains/components/tool.yaml": rolls}
    with open_rolling(tmp_path, environments, texts) as made:
        yield made


def examined(patient: Workspace) -> tuple[dict[str, Any], str]:
    """As a value and as text."""
    value, text = patient("doctor", "--format", "json"), patient("doctor")
    assert (value.code, value.stderr, text.code, text.stderr) == (0, "", 0, "")
    found: dict[str, Any] = value.document
    return found, text.stdout


def test_doctor(patient: Workspace) -> None:
    found, text = examined(patient)
    assert found["schema"] == "mlir-matrix/doctor/v1"
    # The interpreter that runs the tool: its modules are there.
    assert Path(found["python"]).samefile(sys.executable)
    assert found["python"] == sys.executable
    assert found["home"]["cache"] == str(patient.home)
    states = {each["name"]: each["state"] for each in found["environments"]}
    assert states == {"filecheck": "installed", "numpy": "missing", "own": "missing", "tool": "missing"}
    suites = {
        each["name"]: (each["tests"], each["ready"], each["to_fetch"], each["blocked"]) for each in found["suites"]
    }
    assert suites == {"nightly": (2, 0, 2, 0), "smoke": (3, 0, 3, 0)}
    (pin,) = found["vanishing"]
    assert (pin["component"], pin["release"], pin["fetched"], pin["installed"]) == ("tool", "1.0", False, False)
    assert "  tool@1.0 (sid): missing: matrix toolchain fetch tool@1.0\n" in text
    assert re.search(r"^smoke +3 +0 +3 ", text, re.MULTILINE)

    assert patient("toolchain", "fetch", "smoke", "--quiet").code == 0
    found, text = examined(patient)
    states = {each["name"]: each["state"] for each in found["environments"]}
    assert states == {"filecheck": "installed", "numpy": "missing", "own": "installed", "tool": "installed"}
    assert [(each["tests"], each["ready"], each["bytes_to_fetch"]) for each in found["suites"]] == [
        (2, 2, 0),
        (3, 3, 0),
    ]
    assert found["home"]["bytes"]["packages"] > 0
    assert found["home"]["actions_limit"] == 10**10
    assert re.search(r"actions .* of 10000 MB$", text, re.MULTILINE)
    assert "  tool@1.0 (sid): downloaded\n" in text
    assert re.search(r"^smoke +3 +3 +– ", text, re.MULTILINE)

    assert patient("toolchain", "gc", "--artifacts").code == 0
    found, text = examined(patient)
    assert (found["vanishing"][0]["fetched"], found["vanishing"][0]["installed"]) == (False, True)
    assert "  tool@1.0 (sid): installed, but cannot be installed again: its archives are missing\n" in text
    assert [each["ready"] for each in found["suites"]] == [2, 3]


def test_where_nothing_is_to_be_had(patient: Workspace) -> None:
    assert patient.root is not None
    path = next((patient.root / "toolchains" / "locks").glob("more-1.0-*"))
    path.unlink()
    found, text = examined(patient)
    reason = "more@1.0 has no lock file; make one with: matrix toolchain lock more@1.0"
    assert [each["blocked"] for each in found["suites"]] == [2, 2]
    assert f"smoke: 2 cannot run: {reason}" in " ".join(text.split())
    assert re.search(r"^tool +.*unavailable: more@1\.0 has no lock", text, re.MULTILINE)


def test_what_suites_name_vanishes_too(workspace: Workspace) -> None:
    """The known-good pins have no release of sid; the suite llvm-releases runs over one."""
    said = {
        f"{pin['component']}@{pin['release']}" for pin in workspace("doctor", "--format", "json").document["vanishing"]
    }
    assert any(re.fullmatch(r"llvm@24\.0\.0\+deb\.\d+", each) for each in said), said
