"""``.ci/run``: which tests of a plan it runs. The verbs are stand-ins here: all tests of everything take hours."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
MATRIX = """\
#!/bin/sh
case "$*" in
    "plan everything") echo "15092 tests to run in 53433 actions, 800 left out" ;;
    "plan "*) cat affected ;;
    *) echo "$*" >> calls; exit PART ;;
esac
"""
TEST = "#!/bin/sh\necho test${MATRIX_PYTHON:+ with $MATRIX_PYTHON}${1:+ $*} >> calls\nexit TESTS\n"
PROGRAMS = ("bash", "cat", "chmod", "date", "dirname", "env", "mktemp", "rm", "sed", "uniq")


def ci(
    folder: Path,
    affected: str,
    pythons: Sequence[str] = ("python3.11",),
    *,
    lint: int = 0,
    part: int = 0,
    tests: int = 0,
    **variables: str,
) -> tuple[int, list[str], str]:
    """The exit code, what was run, and stderr, where a change affects tests by this line of a plan; ``python3`` is 3.11.

    ``lint``, ``part``, ``tests``: exit codes. These run at once; here, parts come first.
    """
    texts = {
        "lint": f"#!/bin/sh\nexit {lint}\n",
        "matrix": MATRIX.replace("PART", f"{part}"),
        "test": TEST.replace("TESTS", f"{tests}"),
    }
    for name, text in texts.items():
        path = folder / "tools" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)
    (folder / ".ci").mkdir()
    shutil.copy(REPOSITORY / ".ci" / "run", folder / ".ci" / "run")
    (folder / "affected").write_text(affected)
    path = folder / "path"
    path.mkdir()
    for name in PROGRAMS:
        found = shutil.which(name)
        assert found is not None
        (path / name).symlink_to(found)
    for name in ("python3", *pythons):
        (path / name).write_text("#!/bin/sh\necho 11\n")
        (path / name).chmod(0o755)
    environment = {"PATH": str(path), "TMPDIR": str(folder), **variables}
    done = subprocess.run([folder / ".ci" / "run"], env=environment, capture_output=True, text=True, check=False)
    calls = folder / "calls"
    lines = calls.read_text().splitlines() if calls.exists() else []
    return done.returncode, sorted(lines, key=lambda line: line.startswith("test")), done.stderr


@pytest.mark.parametrize(
    ("affected", "shard"),
    [
        ("0 tests to run in 0 actions. Why: matrix explain ID\n", "1/1"),
        ("1 test to run in 9 actions.\n", "1/1"),
        ("19 tests to run in 9 actions.\n", "1/1"),
        ("100 tests to run in 9 actions.\n", "6/6"),
        # Everything: about 20 tests as well, and not those that ran before.
        ("15092 tests to run in 53433 actions.\n", "12/755"),
    ],
)
def test_a_change_runs_a_part_of_what_it_affects(tmp_path: Path, affected: str, shard: str) -> None:
    code, calls, _ = ci(tmp_path, affected, MATRIX_CI_BASE="main", MATRIX_CI_DATE="1970-01-11")
    assert code == 0
    assert calls == [
        "run everything --shard 11/755 --quiet",
        f"run everything --changed-since main --shard {shard} --quiet",
        "test",
    ]


def test_a_plan_that_does_not_say_how_many_tests_run_is_an_error(tmp_path: Path) -> None:
    code, _, stderr = ci(tmp_path, "Nothing.\n", MATRIX_CI_BASE="main")
    assert code == 1
    assert "does not say how many tests run" in stderr


@pytest.mark.parametrize(("lint", "part", "tests"), [(3, 0, 0), (0, 4, 0), (0, 0, 5)])
def test_a_failure_of_lint_or_a_part_or_the_tests_is_one_of_all(
    tmp_path: Path, lint: int, part: int, tests: int
) -> None:
    code, _, stderr = ci(tmp_path, "", ["python3.11", "python3.13"], lint=lint, part=part, tests=tests)
    assert (code, stderr) == (lint + part + tests, "")
    assert not list(tmp_path.glob("tmp.*"))


def test_without_a_commit_to_compare_with(tmp_path: Path) -> None:
    code, calls, _ = ci(tmp_path, "", MATRIX_CI_DATE="1970-01-01")
    assert (code, calls) == (0, ["run everything --shard 1/755 --quiet", "test"])


OTHERS = "--fast --toolchain"


@pytest.mark.parametrize(
    ("pythons", "more"),
    [
        ([], []),
        (["python3.11"], []),
        (["python3.11", "python3.13"], [f"test with python3.13 {OTHERS}"]),
        (["python3.11", "python3.12", "python3.14"], [f"test with python3.14 {OTHERS}"]),
        # ``python3`` is neither of them.
        (["python3.12"], [f"test with python3.12 {OTHERS}"]),
    ],
)
def test_what_needs_no_daemon_runs_with_the_oldest_and_the_newest_python(
    tmp_path: Path, pythons: list[str], more: list[str]
) -> None:
    code, calls, stderr = ci(tmp_path, "", pythons)
    assert (code, calls[1:], stderr) == (0, ["test", *more], "")
