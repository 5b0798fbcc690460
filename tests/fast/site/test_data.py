"""The data of sites: lines of tests, columns, and builds that only add later runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mlir_matrix.base.errors import UsageError
from mlir_matrix.history.checked import check
from mlir_matrix.history.store import Store
from mlir_matrix.site import site
from mlir_matrix.site.site import Published, publish_site
from support.recordings import TIMES, recording, result

NOW = TIMES[100]


def ran(store: Store, day: int, *results: Any, host: str = "one", command: str = "matrix run") -> str:
    made = recording(results, day, host=host)
    made["run"]["command"] = command
    assert store.add(check(made), TIMES[300])
    return str(made["id"])


def published(folder: Path, store: Store, day: int = 99) -> Published:
    return publish_site(folder / "site", store, TIMES[day - 1], NOW)


def read(file: Path) -> Any:
    return json.loads(file.read_text("ascii").removeprefix("matrix.put(").removesuffix(");\n").join("[]"))[1]


def manifest(folder: Path) -> Any:
    page = (folder / "site/index.html").read_text()
    start = page.index("data/manifest-")
    return read(folder / "site" / page[start : page.index(".js", start) + 3])


def documents(folder: Path) -> dict[str, Any]:
    """Return the documents that the first page names."""
    return {name: read(folder / "site" / path) for name, path in manifest(folder)["files"].items()}


@pytest.fixture
def store(tmp_path: Path) -> Any:
    made = Store(f"sqlite:///{tmp_path / 'history.sqlite'}")
    yield made
    made.close()


def a_history(store: Store, days: range) -> None:
    """Add the runs of some days: `a` passes until day 5, `b` is flaky, `c` is skipped on one machine, `d` becomes slower."""
    for day in days:
        for host in ("one", "two"):
            a = result("a") if day < 5 else result("a", "crashed", "signal 11")
            b = result("b", *(("mismatch", "1 of 4 elements are wrong") if day % 3 == 1 else ()))
            c = result("c", "skipped", "no device") if host == "two" else result("c", cached=day > 0)
            d = result("d", seconds=1.0 if day < 8 else 2.0, costs={"exact": {"instructions": 100 + 50 * (day > 6)}})
            ran(store, day, a, b, c, d, host=host)


def test_lines_of_a_test(tmp_path: Path, store: Store) -> None:
    a_history(store, range(14))
    assert published(tmp_path, store)[:2] == (4, 28)
    found = documents(tmp_path)
    cell = found["cell/jax/p/t"]
    line = cell["tests"]["jax/p/t/a"][0]
    assert [(each["state"], each["first"], each["last"], each["runs"]) for each in line["segments"]] == [
        (1, 0, 8, 5),
        (0, 10, 26, 9),
    ]
    assert [cell["behaviours"][each["behaviour"]][0] for each in line["segments"]] == ["pass", "crashed"]
    assert line["runs"] == list(range(0, 28, 2))
    changes = {each["metric"]: each for each in cell["tests"]["jax/p/t/d"][1]["changes"]}
    assert changes["seconds"] == {"metric": "seconds", "run": 17, "before": 1.0, "after": 2.0}
    assert changes["instructions"] == {"metric": "instructions", "run": 15, "before": 100, "after": 150}
    assert found["tests"]["workloads"] == list("abcd")
    assert found["latest/outcome"]["series"] == ["CM..", "CM-."]
    trends = (tmp_path / "site/trends.html").read_text()
    assert trends.count('href="test.html#jax%2Fp%2Ft%2Fd"') == 4
    assert ("time ×2<" in trends, "instructions ×1.5<" in trends) == (True, True)


def test_later_runs_are_added(tmp_path: Path, store: Store) -> None:
    a_history(store, range(9))
    published(tmp_path, store)
    a_history(store, range(9, 14))
    ran(store, 20, result("new"), host="three", command="matrix run --pin llvm=22")
    assert published(tmp_path, store).added == 11
    added = documents(tmp_path)
    (tmp_path / "site").rename(tmp_path / "added")
    assert published(tmp_path, store).added == 29
    assert documents(tmp_path) == added
    assert manifest(tmp_path)["series"][2] == {"host": "three", "pins": "llvm=22"}


def test_other_histories_are_built_anew(tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    a_history(store, range(3))
    assert published(tmp_path, store).added == 6
    assert published(tmp_path, store).added == 0
    late = ran(store, 1, result("late"), host="late")
    assert published(tmp_path, store).added == 7
    assert [run["id"] for run in manifest(tmp_path)["runs"]].index(late) == 4
    file = tmp_path / "site" / manifest(tmp_path)["files"]["cell/jax/p/t"]
    file.write_text(file.read_text()[:-20])
    assert published(tmp_path, store).added == 7
    assert file.read_text().endswith(");\n")
    monkeypatch.setattr(site, "__version__", "other")
    assert published(tmp_path, store).added == 7
    with pytest.raises(UsageError, match="is in the future"):
        publish_site(tmp_path / "site", store, TIMES[101], NOW)


def test_a_bad_result_of_a_run_counts(tmp_path: Path, store: Store) -> None:
    ran(store, 0, result("a"), result("a", "crashed"), result("a"))
    published(tmp_path, store)
    found = documents(tmp_path)
    assert found["latest/outcome"]["series"] == ["C"]
    assert found["cell/jax/p/t"]["tests"]["jax/p/t/a"][0]["segments"][0]["runs"] == 1


def test_an_empty_history(tmp_path: Path, store: Store) -> None:
    assert published(tmp_path, store) == Published(0, 0, 0, 0)
    assert documents(tmp_path)["tests"]["workloads"] == []
