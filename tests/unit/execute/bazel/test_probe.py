"""Whether a Bazel will do: old ones, broken ones, ones that hang; asked once for as long as they stay the same."""

from __future__ import annotations

import time

import pytest

from mlir_matrix.execute.bazel import probe as module
from mlir_matrix.execute.bazel.probe import Probe, probe
from support.fake_bazel import BUILDS, Fakes


def test_one_that_builds(fakes: Fakes) -> None:
    """Tried once; another program of the same name is another one."""
    path = fakes.add()
    for _ in range(2):
        assert probe(path, fakes.state) == Probe(version="7.7.1")
    assert fakes.calls == ["--version", "//:probe"]
    fakes.add(version="echo bazel 8.0.0-pre.2")
    assert probe(path, fakes.state) == Probe(version="8.0.0-pre.2")


@pytest.mark.parametrize(
    ("version", "reason"),
    [
        ("echo bazel 4.2.3- '(@non-git)'", "is 4.2.3-: 7 or newer is needed"),
        ("echo bazel no_version", "says no version; asked for it, it says: «bazel no_version»"),
        ("echo oops >&2; exit 3", "says no version; asked for it, it says: «oops»"),
        ("exit 3", "says no version; asked for it, it says: nothing"),
    ],
)
def test_versions(fakes: Fakes, version: str, reason: str) -> None:
    assert probe(fakes.add(version=version), fakes.state).reason == reason
    assert fakes.calls == ["--version"]


@pytest.mark.parametrize(
    ("then", "reason"),
    [
        (
            "echo Loading; echo 'ERROR: no module zlib' >&2; echo 'ERROR: and'; exit 1",
            "a first build fails: «ERROR: no module zlib»",
        ),
        ("exit 0", "a first build builds nothing"),
    ],
)
def test_builds(fakes: Fakes, then: str, reason: str) -> None:
    assert probe(fakes.add(then=then), fakes.state).reason == f"is 7.7.1, but {reason}"


def test_one_that_hangs(fakes: Fakes, monkeypatch: pytest.MonkeyPatch) -> None:
    """Is ended with what it started."""
    monkeypatch.setattr(module, "_BUILD_S", 0.3)
    monkeypatch.setattr(module, "_VERSION_S", 0.3)
    begin = time.monotonic()
    slow = fakes.add(then="sleep 60 & wait")
    assert probe(slow, fakes.state).reason == "is 7.7.1, but a first build is not done after 0 seconds"
    silent = fakes.add("silent", version="sleep 60")
    assert probe(silent, fakes.state).reason == "does not say its version within 0 seconds"
    assert time.monotonic() - begin < 20


def test_what_may_pass_is_asked_again(fakes: Fakes, monkeypatch: pytest.MonkeyPatch) -> None:
    """On another day; a version will not have changed."""
    broken, old = fakes.add(then="exit 1"), fakes.add("old", version="echo bazel 6.5.0")
    for _ in range(2):
        probe(broken, fakes.state)
        probe(old, fakes.state)
    assert fakes.calls == ["--version", "//:probe", "--version"]
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + 86_400)
    probe(broken, fakes.state)
    probe(old, fakes.state)
    assert fakes.calls[3:] == ["--version", "//:probe"]


@pytest.mark.parametrize("text", ["", "{", "[]", '{"day": 1}', '{"day": 1, "known": {"a": {"x": 1}}}', '{"known": []}'])
def test_what_is_remembered_is_data(fakes: Fakes, text: str) -> None:
    fakes.state.mkdir()
    (fakes.state / "bazel-probes.json").write_text(text)
    assert probe(fakes.add(), fakes.state) == Probe(version="7.7.1")


def test_what_cannot_be_remembered(fakes: Fakes) -> None:
    fakes.state.write_text("no folder")
    assert probe(fakes.add(then=BUILDS), fakes.state) == Probe(version="7.7.1")


def test_no_program(fakes: Fakes) -> None:
    assert probe(fakes.folder / "none", fakes.state).reason == "cannot be run: No such file or directory"
    (fakes.folder / "bad").write_text("#!/none\n")
    (fakes.folder / "bad").chmod(0o755)
    assert "No such file" in probe(fakes.folder / "bad", fakes.state).reason
