"""A reduction has its folder alone, no files of others in it, and names what fails of a step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from mlir_matrix.base.errors import UsageError
from mlir_matrix.bisect.steps.passes import PATTERNS
from mlir_matrix.plan.graph import File
from mlir_matrix.reduce.lines import Lines
from mlir_matrix.reduce.reduced import LOG, Reduced, own_folder
from mlir_matrix.reduce.run import fewest_passes


def test_a_folder_is_for_one_reduction_at_a_time(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    with own_folder(folder):
        with pytest.raises(UsageError, match="another process reduces this test"), own_folder(folder):
            pass
        (folder / LOG).touch()
    with own_folder(folder):
        pass


def test_a_folder_with_files_of_others_is_refused(tmp_path: Path) -> None:
    (tmp_path / "catalog").mkdir()
    with pytest.raises(UsageError, match=r"has files, but no log\.ndjson of a reduction"), own_folder(tmp_path):
        pass


class OneStep:
    """The behaviour of a step with the passes a, b and c, which needs some of them and of its patterns."""

    def __init__(self, needs: set[str], *, has_patterns: bool) -> None:
        inputs = {"patterns": File(0, "patterns.mlir")} if has_patterns else {}
        step = SimpleNamespace(id="1", label="fuse", tool="passes", params={"passes": "a,b,c"}, inputs=inputs)
        self.sides = [SimpleNamespace(actions=[step])]
        self._needs, self._has_patterns = needs, has_patterns

    def with_passes(self, _action: str, passes: str, *, patterns: bool) -> SimpleNamespace:
        given = {*passes.split(","), *([PATTERNS] if patterns and self._has_patterns else [])}
        return SimpleNamespace(refusal=lambda *_arguments: "" if self._needs <= given else "passes")


class NoWorkers:
    def call(self, work: Callable[[None], str]) -> str:
        return work(None)


@pytest.mark.parametrize(
    ("needs", "has_patterns", "found", "in_one_command"),
    [
        pytest.param({"b"}, False, ["b"], True, id="a pass of a step without patterns"),
        pytest.param({"b"}, True, ["b"], True, id="a pass, without the patterns"),
        pytest.param({PATTERNS}, True, [PATTERNS], False, id="the patterns alone"),
        pytest.param({PATTERNS, "c"}, True, [PATTERNS, "c"], False, id="a pass after the patterns"),
        pytest.param({"d"}, True, [], False, id="neither"),
    ],
)
def test_patterns_are_named_where_the_passes_fail_only_with_them(
    needs: set[str], has_patterns: bool, found: Sequence[str], in_one_command: bool
) -> None:
    subject, behaviour = cast(Any, SimpleNamespace(guilty="fuse")), cast(Any, OneStep(needs, has_patterns=has_patterns))
    passes = fewest_passes(subject, behaviour, Lines("", ""), cast(Any, NoWorkers()))
    assert passes == found
    reduced = cast(Reduced, SimpleNamespace(by_programs=True, passes=passes))
    assert Reduced.fails_in_one_command.__get__(reduced) is in_one_command
