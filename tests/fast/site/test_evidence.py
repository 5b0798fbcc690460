"""What this machine keeps of failing tests becomes part of the site, whatever is in it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mlir_matrix.actions.outcomes import Outcome
from mlir_matrix.base.paths import Home
from mlir_matrix.execute.action_cache import ActionCache
from mlir_matrix.history.sides import HistorySide
from mlir_matrix.site.documents import SiteSeries
from mlir_matrix.site.evidence import evidence_of
from mlir_matrix.site.publish import Publication, publishing
from support.recordings import TIMES, result

TEST = "jax/p/t/a"
SERIES: list[SiteSeries] = [{"host": os.uname().nodename, "pins": "llvm=22"}]
HOSTILE = "<script>alert(1)</script></script>\u2028\u202e\x1b[31m<img src=x onerror=alert(1)>"


class Machine:
    """A machine with an action cache, and folders of failures."""

    def __init__(self, folder: Path) -> None:
        self.home = Home(cache=folder, state=folder / "state", actions=folder / "actions")
        self.cache = ActionCache(self.home.actions)
        self.cache.prepare()

    def blob(self, data: bytes) -> str:
        file = self.home.cache / "new"
        file.write_bytes(data)
        return self.cache.take_file(str(file))

    def failure(self, run: str, test: str = TEST, **more: Any) -> Path:
        folder = self.home.state / "failures" / run / test
        folder.mkdir(parents=True)
        entry = result("a", "mismatch", "wrong", repeat="matrix run jax/p/t/a --pin llvm=22", **more).to_json()
        (folder / "result.json").write_text(json.dumps(entry))
        return folder

    def evidence(self, site: Publication, *levels: tuple[str, str], test: str = TEST, **more: Any) -> Any:
        given: dict[str, Any] = {"role": "bad", "host": os.uname().nodename, "outcome": Outcome.MISMATCH, **more}
        side = HistorySide(series=0, run="r" * 32, started=TIMES[0], levels=levels, **given)
        found = evidence_of({test: [side]}, SERIES, self.home, site)
        return json.loads(json.dumps(found[test]))


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Publication]:
    with publishing(tmp_path / "site") as publication:
        yield publication


def documents(folder: Path, site: Publication) -> dict[str, Any]:
    """Return the documents of a build as a browser gets them."""
    found = {}
    for name, path in site.files.items():
        if path.endswith(".js"):
            text = (folder / "site" / path).read_bytes()
            assert b"\0" not in text
            assert text.isascii()
            call = text.decode().removeprefix("matrix.put(").removesuffix(");\n")
            named, found[name] = json.loads(f"[{call}]")
            assert named == name
    return found


def test_the_ir_of_steps_is_a_document_each(machine: Machine, site: Publication, tmp_path: Path) -> None:
    text = f"module {{}} // {HOSTILE}"
    same = machine.blob(text.encode())
    found = machine.evidence(site, ("import", same), ("fuse", same), ("lost", "f" * 64))
    size, document = len(text.encode()), f"ir/{same}"
    assert found["sides"][0]["stages"] == [
        {"step": "import", "digest": same, "bytes": size, "document": document},
        {"step": "fuse", "digest": same, "bytes": size, "document": document},
        {"step": "lost", "digest": "f" * 64, "bytes": 0},
    ]
    assert documents(tmp_path, site) == {document: text}


@pytest.mark.parametrize("data", [b"\x7fELF\0\0", b"\xff\xfe", b"text\0"])
def test_what_is_no_text_has_no_document(machine: Machine, site: Publication, data: bytes) -> None:
    (stage,) = machine.evidence(site, ("import", machine.blob(data)))["sides"][0]["stages"]
    assert stage["bytes"] == len(data)
    assert "document" not in stage
    assert not site.files


def test_a_long_text_is_cut_and_says_so(machine: Machine, site: Publication, tmp_path: Path) -> None:
    # The limit is in the middle of a character, and the line has 5 MB.
    machine.evidence(site, ("import", machine.blob(("x" + "é" * 2_500_000).encode())))
    (text,) = documents(tmp_path, site).values()
    assert text.endswith("é\n… 3,951,425 more bytes are not shown\n")


def test_the_newest_folder_with_this_outcome_and_these_pins_counts(
    machine: Machine, site: Publication, tmp_path: Path
) -> None:
    machine.failure("2026-01-01T00-00-00Z")
    newest = machine.failure("2026-01-02T00-00-00Z")
    (newest / "diagnostics.txt").write_text(HOSTILE)
    (newest / "log.txt").write_bytes(b"\xff" * 10)
    (newest / "commands.sh").write_text("opt\n")
    (newest / "error-y.svg").write_text("<svg/>")
    other = machine.failure("2026-01-03T00-00-00Z")
    (other / "result.json").write_text((newest / "result.json").read_text().replace("llvm=22", "llvm=21"))
    (machine.failure("2026-01-04T00-00-00Z") / "result.json").write_text('{"id": "jax/p/t/a", "outco')
    (side,) = machine.evidence(site)["sides"]
    assert side["entry"]["reason"] == "wrong"
    assert side["diagnostics"].startswith("<script>alert(1)</script></script>\\u2028\\u202e\\x1b[31m")
    assert (side["log"], side["commands"]) == ("", "opt\n")
    ((name, path),) = side["pictures"]
    assert (name, (tmp_path / "site" / path).read_text()) == ("y", "<svg/>")
    for more in ({"outcome": Outcome.CRASHED}, {"role": "good"}, {"host": "another"}):
        assert "entry" not in machine.evidence(site, **more)["sides"][0]


@pytest.mark.parametrize("test", ["../../secret", "/etc", "a/./b", "a\0b"])
def test_a_name_leads_nowhere_else(machine: Machine, site: Publication, test: str) -> None:
    machine.failure("2026-01-02T00-00-00Z")
    secret = machine.failure("x").rename(machine.home.state / "secret")
    assert (secret / "result.json").exists()
    assert "entry" not in machine.evidence(site, test=test)["sides"][0]


def test_what_the_machine_has_removed_stays_in_the_site(machine: Machine, tmp_path: Path) -> None:
    ir = machine.blob(b"module {}")
    folder = machine.failure("2026-01-01T00-00-00Z")
    (folder / "error-y.svg").write_text("<svg/>")
    reports = {
        "bisect/2026-01-01T00-00-00Z/jax/p/t/a": f"# {HOSTILE}\n",
        "reduce/x": f"# R\n\nReduced from test `{TEST}`.\n",
    }
    for name, text in reports.items():
        (machine.home.state / name).mkdir(parents=True)
        (machine.home.state / name / "report.md").write_text(text)
    with publishing(tmp_path / "site") as first:
        found = machine.evidence(first, ("import", ir))
        first.put(f"evidence/{TEST}", found)
        first.finish("1", "d", [])
    assert [title for title, _ in found["reports"]] == ["matrix reduce", "matrix bisect, 2026-01-01T00-00-00Z"]
    with publishing(tmp_path / "site") as second:
        assert Machine(tmp_path / "empty").evidence(second, ("import", ir)) == found
        second.finish("1", "d", [])
    with publishing(tmp_path / "site"):
        assert documents(tmp_path, second) == {f"ir/{ir}": "module {}"}
        assert [(tmp_path / "site" / path).read_text() for _, path in found["sides"][0]["pictures"]] == ["<svg/>"]
