"""Results documents are imported into a history, each once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mlir_matrix.base.errors import UsageError
from mlir_matrix.history.checked import check
from mlir_matrix.history.chosen_runs import ChosenRuns
from mlir_matrix.history.questions import Questions
from mlir_matrix.history.results_files import add_run, read_run
from mlir_matrix.history.store import Store
from mlir_matrix.results.results import Run, to_document
from support.recordings import TIMES, first_bad, recording, result


@pytest.fixture
def document() -> dict[str, Any]:
    about = recording([])["run"]
    about |= {"selecting": ["nightly"], "host": "ci"}
    run = Run(results=[result("a", "crashed"), result("b")])
    return dict(to_document(run, about, None))


def written(folder: Path, document: dict[str, Any], **more: Any) -> Path:
    file = folder / "results.json"
    file.write_text(json.dumps({**document, **more}))
    return file


def test_a_file_is_imported_once(tmp_path: Path, store: Store, document: dict[str, Any]) -> None:
    run = read_run(written(tmp_path, document))
    assert [add_run(store, run, TIMES[9]) for _ in range(2)] == [True, False]
    with store.reading() as connection:
        questions = Questions(store, connection, ChosenRuns(host="ci", suite="nightly"))
        (found,), _ = questions.runs()
        assert (found["tests"], found["unexpected"]) == (2, 1)
        assert first_bad(questions, [])[1] == 1


def test_a_run_that_is_recorded_here_is_not_imported(tmp_path: Path, store: Store, document: dict[str, Any]) -> None:
    store.add(check(recording([result("a")], host="ci")), TIMES[9])
    assert not add_run(store, read_run(written(tmp_path, document)), TIMES[9])
    other = {**document["run"], "command": "matrix run --shard 2/2"}
    assert add_run(store, read_run(written(tmp_path, document, run=other)), TIMES[9])


def test_names_that_are_not_unicode(tmp_path: Path, document: dict[str, Any]) -> None:
    odd = {**document["run"], "host": "a\udcff", "command": "matrix run '\udcff'"}
    assert read_run(written(tmp_path, document, run=odd)).host.startswith("a")


def test_a_file_of_an_older_program_is_of_no_known_suite(tmp_path: Path, document: dict[str, Any]) -> None:
    del document["run"]["selecting"]
    assert read_run(written(tmp_path, document)).arguments == '["?"]'


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (
            {"schema": "mlir-matrix/results/v2"},
            "schema: mlir-matrix/results/v2; expected mlir-matrix/results/v1; upgrade",
        ),
        (
            {"schema": "mlir-matrix/golden/v1"},
            "schema: mlir-matrix/golden/v1; expected .*; written by: matrix run --results",
        ),
        ({"interrupted": "maybe"}, "interrupted: maybe: .*; make it again with: matrix run --results FILE"),
        ({"tests": [{}]}, r"tests.0.\w+: {}: Field required; make it again"),
    ],
)
def test_a_file_of_another_kind(tmp_path: Path, document: dict[str, Any], more: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=rf"results\.json: {message}"):
        read_run(written(tmp_path, document, **more))


def test_text_that_is_not_utf_8(tmp_path: Path, document: dict[str, Any]) -> None:
    test = {**document["tests"][0], "pins": {"llvm": "\ud800"}}
    with pytest.raises(UsageError, match=r"results\.json: .*ud800.* is not UTF-8; make it again with: matrix run"):
        read_run(written(tmp_path, document, tests=[test]))
