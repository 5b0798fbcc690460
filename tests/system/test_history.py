"""``matrix history`` over real runs, and over a real PostgreSQL that goes away while machines push."""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from email import message_from_bytes
from email.policy import default
from pathlib import Path

import psycopg
import pytest

from mlir_matrix.base.text import now
from mlir_matrix.environments.session import Session
from mlir_matrix.fleet.durations import read_snapshot, read_summary
from mlir_matrix.history.checked import check
from mlir_matrix.history.chosen_runs import ALL_RUNS, ChosenRuns
from mlir_matrix.history.questions import Questions
from mlir_matrix.history.spool import Spool
from mlir_matrix.history.store import Store
from mlir_matrix.history.today import Morning
from mlir_matrix.history.transfer import ingest, prune
from mlir_matrix.history.trends import Trends
from support.downstream import NAMED, TURNS, Downstream
from support.first_schema import make_old_database
from support.machine import git
from support.postgres import Postgres, postgres
from support.recordings import TIMES, first_bad, recording, result
from support.workspace import REPOSITORY, ROOMS, Workspace, wait_until

COIN = """\
description: Fails as a coin falls.
environment: mlir
accepts: [linalg]
gives: linalg
"""
TOSS = """\
import os
from pathlib import Path

from mlir_matrix.actions.api import Action, ActionFailed, read_text


def run(action: Action) -> None:
    if os.urandom(1)[0] & 1:
        raise ActionFailed("tails")
    Path(action.outputs["out"]).write_text(read_text(action.inputs["ir"], "the IR"))
"""
TEST = "mlir/turns/ir/named"
#: A test fails in one of two runs with a probability of a half.
COINS = 12


@pytest.fixture
def catalog(tmp_path: Path) -> Downstream:
    made = Downstream(tmp_path / "theirs")
    made.write("recipes/steps/turns/step.yaml", TURNS)
    made.write("recipes/steps/turns/tests/named.mlir", NAMED)
    made.write("recipes/steps/coin/step.yaml", COIN)
    made.write("recipes/steps/coin/tool.py", TOSS)
    for number in range(COINS):
        made.write(f"recipes/steps/coin/tests/coin-{number}.mlir", NAMED.replace("%x", f"%x{number}"))
    commit(made.root, "init")
    return made


def commit(folder: Path, *words: str) -> None:
    if words:
        git(folder, *words)
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "m", "--allow-empty")


def test_a_history_of_runs(fresh: Callable[[str], Workspace], catalog: Downstream, tmp_path: Path) -> None:
    workspace = fresh("home")

    def run(*words: str, code: int) -> None:
        done = workspace("run", TEST, "--catalog", catalog.root, "--quiet", *words)
        assert done.code == code, done.stderr

    run("--pin", "llvm=19", code=0)
    run("--pin", "llvm=19", code=0)
    commit(catalog.root)
    run("--pin", "llvm=22", "--results", str(tmp_path / "bad.json"), code=1)

    shown = workspace("history", "show", "mlir/**", "--format", "json").document
    assert shown["summary"] == {"matched": 1, "shown": 1, "unexpected": 1}
    assert [each["outcome"] for each in shown["tests"][0]["recent"]] == ["pass", "pass", "mismatch"]
    assert [each["executed"] for each in shown["tests"][0]["recent"]] == [True, False, True]
    assert "..M" in workspace("history", "show", TEST).stdout

    diff = workspace("history", "diff", "latest~1", "latest", "--format", "json")
    assert (diff.code, [test["id"] for test in diff.document["new"]]) == (1, [TEST])
    same = workspace("history", "diff", tmp_path / "bad.json", "latest")
    assert (same.code, same.stdout.strip()) == (0, "0 new, 0 fixed, 0 changed, 0 added, 0 gone")

    runs = workspace("history", "show", "--format", "json").document["runs"]
    (bad,) = workspace("history", "show", "--first-bad", "--format", "json").document["tests"]
    assert (bad["last_good"]["id"], bad["first_bad"]["id"]) == (runs[1]["id"], runs[0]["id"])
    assert bad["pins"]["llvm"][0].startswith("19.")
    moved = {each["folder"]: each["good"] != each["bad"] for each in bad["commits"]}
    assert moved[str(catalog.root)]
    words = shlex.split(bad["bisect"])
    assert words[1:3] == ["bisect", TEST]
    bisected = workspace(*words[1:], "--quiet", "--format", "json")
    assert [each["kind"] for each in bisected.document["tests"][0]["changes"]] == ["broke"]

    file = tmp_path / "durations.json"
    assert workspace("history", "export", "-o", file).code == 0
    exported, summary = read_snapshot(file).tests, read_summary(workspace.folders.state).tests
    assert exported.keys() == summary.keys() == {TEST}
    assert exported[TEST].seconds == pytest.approx(summary[TEST].seconds, abs=0.001)
    assert (exported[TEST].last_run, exported[TEST].last_failure) == (
        summary[TEST].last_run,
        summary[TEST].last_failure,
    )

    since = now()
    catalog.write("recipes/steps/turns/tests/named.mlir", NAMED.replace("CHECK: linalg", "CHECK: nothing"))
    commit(catalog.root)
    run("--pin", "llvm=19", code=1)
    mailer = tmp_path / "sendmail"
    mailer.write_text(f'#!/bin/sh\necho "$@" > {tmp_path}/words; cat > {tmp_path}/mail; exit $(cat {tmp_path}/code)\n')
    mailer.chmod(0o755)
    (tmp_path / "code").write_text("0")
    path = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    sending = replace(workspace, more={**workspace.more, **path})
    morning = sending("history", "today", "--since", since, "--mail", "lab@example.org", "--format", "json")
    assert morning.code == 1, morning.stderr
    (cause,) = morning.document["new"]
    assert (cause["tests"], cause["file"]) == ([TEST], "recipes/steps/turns/tests/named.mlir")
    (place,) = cause["places"]
    assert place["pins"] == "llvm=19"
    assert str(catalog.root) in [each["folder"] for each in place["first_bad"]["commits"]]
    assert (tmp_path / "words").read_text() == "-t -i\n"
    mail = message_from_bytes((tmp_path / "mail").read_bytes(), policy=default)
    assert (mail["To"], mail["Subject"]) == ("lab@example.org", "matrix: 1 test newly fails, 1 cause")
    assert cause["title"][:60] in mail.get_content()
    (tmp_path / "code").write_text("75")
    refused = sending("history", "today", "--mail", "lab@example.org")
    assert (refused.code, "did not take the mail (exit code 75)" in refused.stderr) == (3, True)

    pruned = workspace("history", "prune", "--older-than", "1d")
    assert (pruned.code, pruned.stdout.rpartition(": ")[2].strip()) == (0, "0 results removed")


def test_flaky_tests_are_found(fresh: Callable[[str], Workspace], catalog: Downstream, tmp_path: Path) -> None:
    """Only what was executed again counts, and of it what differs."""
    # The checkout of the tests may have changes.
    for room in ROOMS:
        shutil.copytree(REPOSITORY / room, tmp_path / "copy" / room)
    commit(tmp_path / "copy", "init")
    workspace = Workspace(fresh("home").home, root=tmp_path / "copy")
    outcomes = []
    for number in range(3):
        done = workspace(
            "run", TEST, "mlir/coin/ir/*", "--catalog", catalog.root, "--quiet", "--format", "json", "--pin", "llvm=19",
            "--cache-dir", workspace.home / f"actions-{number}",
        )  # fmt: skip
        outcomes.append({test["id"]: test["outcome"] for test in done.document["tests"]})
    wanted = {test for test in outcomes[0] if len({each[test] for each in outcomes}) > 1}
    found = workspace("history", "show", "--flaky", "--format", "json").document
    assert {test["id"] for test in found["tests"]} == wanted
    assert wanted
    assert all(test["executions"] == 3 and test["differing"] == 1 for test in found["tests"])


@pytest.fixture(scope="module")
def server(current: Session, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Postgres]:
    with postgres(current, tmp_path_factory.mktemp("postgres")) as running:
        yield running


def spooled(workspace: Workspace, machine: int) -> list[str]:
    """Give a machine runs; every second machine has those of the one before, too."""
    made = []
    for owner in {machine, machine - machine % 2}:
        for day in range(10):
            results = [result(f"t{number}", "pass" if number % 50 or day % 3 else "crashed") for number in range(200)]
            made.append(recording(results, day, host=f"host-{owner}", id=f"{owner:016x}{day:016x}"))
    for each in made:
        Spool(workspace.folders.state).add(each)
    return [each["id"] for each in made]


def test_machines_push_while_the_server_goes_away(server: Postgres, tmp_path: Path) -> None:
    """Nothing is lost, and nothing is there twice."""
    houses = [Workspace(tmp_path / f"home-{number}") for number in range(4)]
    expected = {run for number, workspace in enumerate(houses) for run in spooled(workspace, number)}
    url = f"postgresql://{server.where}"

    def count() -> int:
        try:
            with psycopg.connect(url) as connection:
                row = connection.execute("SELECT count(*) FROM runs").fetchone()
                return int(row[0]) if row else 0
        except psycopg.errors.UndefinedTable:
            return 0

    with ExitStack() as stack:
        pushes = [stack.enter_context(workspace.start("history", "push", "--to", url)) for workspace in houses]
        for some in (5, 20):
            assert wait_until(lambda some=some: count() >= some)
            server.kill()
            server.start()
        said = [push.communicate() for push in pushes]
        assert [(push.returncode, err) for push, (_, err) in zip(pushes, said, strict=True)] == [(0, "")] * 4, said
    with psycopg.connect(url) as connection:
        runs = connection.execute("SELECT id FROM runs").fetchall()
        rows = connection.execute(
            "SELECT r.id, count(*), count(DISTINCT test) FROM results JOIN runs r ON r.key = run GROUP BY 1"
        )
        assert sorted(run for (run,) in runs) == sorted(expected)
        assert set(rows) == {(run, 200, 200) for run in expected}
    again = houses[0]("history", "push", "--to", url)
    assert again.stdout.rpartition(": ")[2].strip() == "0 runs added"


def test_both_databases_give_the_same_answers(server: Postgres, tmp_path: Path) -> None:
    """A question is one statement for both, and so is what removes old results."""
    with psycopg.connect(f"postgresql://{server.where}", autocommit=True) as connection:
        connection.execute("CREATE DATABASE other")
    urls = (f"sqlite:///{tmp_path / 'history.sqlite'}", "postgresql://" + server.where.replace("/postgres?", "/other?"))
    spool = Spool(tmp_path)
    for day in range(30):
        results = [
            result(
                f"t{number}", "crashed" if (number == 3 and day > 20) or (number * day) % 17 == 5 else "pass",
                seconds=1 + day % 3 / 10 + (day > 24), cached=(number + day) % 7 == 0,
                metrics={"error_used": day / 50 + number / 100}, pins={"llvm": str(20 + day // 10)},
            )
            for number in range(20)
        ]  # fmt: skip
        spool.add(recording(results, day, inputs={each.id: f"{day // 6:064x}" for each in results}))
    answers = []
    for url in urls:
        store = Store(url)
        spooled = [file.read_bytes() for file in spool.files()]
        names = spool.files()
        assert ingest(spool, store, TIMES[300], print) == 30
        for name, data in zip(names, spooled, strict=True):
            name.write_bytes(data)
        with store.reading() as connection:
            questions = Questions(store, connection)
            some = Questions(store, connection, ChosenRuns(host="o*", suite="smoke", since=TIMES[5]))
            trends = Trends(questions)
            answers.append([
                questions.runs(), questions.show(["jax/**"]), first_bad(questions, []), questions.outcomes("latest~2"),
                trends.flaky([]), trends.slower([]), trends.growing([]), trends.snapshot("").tests,
                some.runs(most=3), some.show(["jax/**"]), first_bad(some, []), some.outcomes("latest~2"),
                Trends(some).flaky([]), Trends(some).snapshot("").tests,
                *(Morning(store, connection, ALL_RUNS, TIMES[27], TIMES[30], pin=pin).document("") for pin in ("", "llvm=2?")),
            ])  # fmt: skip
        answers[-1].append(prune(store, TIMES[20], TIMES[301]))
        with store.reading() as connection:
            shown, _ = Questions(store, connection).show(["jax/**"])
            answers[-1].append([month for test in shown for month in test["months"]])
        store.close()
    assert answers[0] == answers[1]
    assert all(answers[0])


def test_a_server_of_the_first_schema_is_migrated(server: Postgres, tmp_path: Path) -> None:
    with psycopg.connect(f"postgresql://{server.where}", autocommit=True) as connection:
        connection.execute("CREATE DATABASE first")
    url = "postgresql://" + server.where.replace("/postgres?", "/first?")
    runs = [check(recording([result("a", outcome)], day)) for day, outcome in ((5, "pass"), (2, "crashed"))]
    make_old_database(url, runs, tmp_path / "first")
    store = Store(url)
    with store.reading() as questions:
        (shown,), _ = Questions(store, questions).show(["jax/**"])
    assert [each["run"] for each in shown["recent"]] == [runs[1].id, runs[0].id]
    assert store.add(check(recording([result("a")], 1)), TIMES[300])
    store.close()


def test_a_table_that_a_server_has_lost_is_named(server: Postgres, tmp_path: Path) -> None:
    """COPY is a call of the driver's own, and so are its errors."""
    with psycopg.connect(f"postgresql://{server.where}", autocommit=True) as connection:
        connection.execute("CREATE DATABASE lost")
    url = "postgresql://" + server.where.replace("/postgres?", "/lost?")
    workspace = Workspace(tmp_path / "home")
    state = workspace.folders.state
    Spool(state).add(recording([result("a")]))
    assert workspace("history", "push", "--to", url).code == 0
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("DROP TABLE results")
    Spool(state).add(recording([result("a")], 1))
    for words in (("push", "--to", url), ("show", "jax/**", "--database", url)):
        done = workspace("history", *words)
        assert (done.code, done.stderr.count("\n")) == (3, 1), done.stderr
        assert "its table results is missing; restore a backup, or move the database away" in done.stderr
