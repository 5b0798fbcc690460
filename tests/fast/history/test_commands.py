"""``matrix history`` without its libraries, and with arguments that are wrong."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from mlir_matrix.cli.main import _call


@pytest.mark.parametrize(
    "words",
    [
        ("show",),
        ("show", "jax/**"),
        ("diff", "a", "b"),
        ("today",),
        ("export",),
        ("import", "a.json"),
        ("push", "--to", "sqlite:///x"),
        ("prune", "--older-than", "9"),
    ],
)
def test_without_sqlalchemy(
    words: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MATRIX_HOME", str(tmp_path))
    for module in ("store", "transfer"):
        monkeypatch.delitem(sys.modules, f"mlir_matrix.history.{module}", raising=False)
    monkeypatch.setitem(sys.modules, "sqlalchemy", None)
    assert _call(["history", *words]) == 2
    assert capsys.readouterr().err == "matrix: matrix history needs sqlalchemy: pip install 'mlir-matrix[history]'\n"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("push",), "no server: give --to"),
        (("prune", "--older-than", "soon"), "'soon' is not a number of days, such as 90d"),
        (("prune", "--older-than", "0d"), "is not a number of days"),
        (("show", "--since", "soon"), "or 2026-01-31T12:00Z, or a number of days or hours, e.g. 7d or 12h"),
        (("show", "--since", "2026"), "--since 2026: expected a date"),
        (("show", "--limit", "0"), "--limit"),
        (("diff", "latest", "nothing.json"), "latest: the history has fewer runs"),
        (("diff", "nothing.json", "latest"), "'nothing.json' is no run"),
        (("today", "--since", "2999-01-01"), "--since 2999-01-01 00:00 is in the future: it is 2"),
        (("today", "--pin", "llvm"), "--pin llvm: expected COMPONENT=RELEASE, e.g. llvm=22"),
        (("today", "--mail", "a, b"), "--mail a, b: expected an address, e.g. lab@example.org"),
        (("today", "--host", "nobody"), "--host nobody: the history has no such run"),
        (("show", "--flaky", "--database", "mysql://h/d"), "mysql: unsupported database"),
    ],
)
def test_wrong_arguments(
    words: tuple[str, ...],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("MATRIX_HOME", str(tmp_path))
    monkeypatch.delenv("MATRIX_HISTORY_URL", raising=False)
    assert _call(["history", *words]) == 2
    assert message in capsys.readouterr().err
