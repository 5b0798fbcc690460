"""What the answers of continuations say about the parts of a failing test."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import cast

import pytest

from mlir_matrix.actions.outcomes import Outcome, Stage
from mlir_matrix.bisect.steps.evidence import Answer, Conclusion, LevelObservation, Part, conclude
from mlir_matrix.bisect.steps.localize import Localized, answer_of
from mlir_matrix.bisect.steps.report import verdict
from support.recordings import result

RIGHT, SAME, OTHER, NONE = Answer.RIGHT, Answer.SAME, Answer.OTHER, Answer.NONE


def part(name: str, release: str = "24") -> Part:
    return Part(name, f"{name} {release}", frozenset({name}))


#: Program, two steps, code generation, target.
PARTS = [part(name) for name in ("program", "fuse", "loops", "object", "target")]


def seen(continuation: str, level: int, answer: Answer, *parts: Part) -> LevelObservation:
    return LevelObservation(
        continuation=continuation, level=level, parts=(*parts, part("runner", continuation)), answer=answer
    )


def own(release: str, level: int, answer: Answer) -> LevelObservation:
    """Return the answer of the rest of the test's own pipeline in another release."""
    return seen(release, level, answer, *(part(each.name, release) for each in PARTS[level + 1 : -1]))


def names(*observations: LevelObservation) -> list[str]:
    return [PARTS[index].name for index in conclude(PARTS, observations).suspects]


def test_the_first_level_that_is_wrong_names_the_step() -> None:
    found = conclude(
        PARTS,
        [
            own("22", 0, RIGHT), own("22", 1, RIGHT), own("22", 2, SAME),
            seen("iree", 1, RIGHT, part("iree")), seen("other", 2, SAME, part("other-object")),
        ],
    )  # fmt: skip
    assert [PARTS[index].name for index in found.suspects] == ["loops"]
    assert found.certain


def test_one_continuation_alone_is_not_certain() -> None:
    found = conclude(PARTS, [own("22", 1, RIGHT), own("22", 2, SAME)])
    assert [PARTS[index].name for index in found.suspects] == ["loops"]
    assert not found.certain


def test_a_fault_that_another_release_has_too_is_not_blamed_on_what_comes_before_it() -> None:
    # Release 22 is wrong from every level on, because its step is wrong as well.
    wrong = [own("22", 0, SAME), own("22", 1, SAME)]
    assert names(*wrong, seen("iree", 0, RIGHT, part("iree"))) == ["fuse", "loops", "object"]


def test_levels_without_a_continuation_reduce_the_claim() -> None:
    assert names(own("22", 0, RIGHT), own("22", 2, SAME)) == ["fuse", "loops"]


def test_a_wrong_answer_in_another_way_counts_only_from_who_was_right_before() -> None:
    assert names(seen("model", 1, OTHER, part("model"))) == [each.name for each in PARTS]
    assert names(seen("model", 0, RIGHT, part("model")), seen("model", 1, OTHER, part("model"))) == ["fuse"]


def test_a_continuation_without_outputs_says_nothing() -> None:
    assert names(own("22", 1, NONE)) == [each.name for each in PARTS]


@pytest.mark.parametrize(("second", "certain"), [("22", False), ("21", True)])
def test_two_continuations_with_a_part_in_common_are_one(second: str, certain: bool) -> None:
    other = seen("jit", 2, RIGHT, part("object", second))
    found = conclude(PARTS[:4], [own("22", 2, RIGHT), other])
    assert (found.suspects, found.certain) == ((3,), certain)


def test_a_continuation_with_the_fault_of_the_test_counts_for_nothing_where_another_is_right() -> None:
    shares = seen("compiler", 0, SAME, part("compiler"))
    assert names(shares, own("22", 1, RIGHT), own("22", 2, SAME)) == ["loops"]


def test_where_capable_continuations_contradict_each_other_both_answers_are_given() -> None:
    found = conclude(
        PARTS, [own("22", 1, RIGHT), own("22", 2, SAME), own("21", 1, RIGHT), own("21", 3, RIGHT), own("21", 2, RIGHT)]
    )
    assert [PARTS[index].name for index in found.suspects] == ["loops", "target"]
    assert found.contested == (2, 3)
    assert not found.certain


#: Other releases, and another step in the release of the test, which share passes with it.
OTHERS = (
    *(own(release, level, SAME) for release in ("22", "21") for level in range(4)),
    *(seen("jit", level, SAME, part("jit"), part("jit runner")) for level in range(3)),
)


def read() -> list[Part]:
    """Return the parts of a test whose second part only reads the program."""
    return [PARTS[0], replace(PARTS[1], reads=True), *PARTS[2:]]


def test_where_every_run_fails_alike_the_program_is_probably_wrong() -> None:
    found = conclude(read(), [each for each in OTHERS if each.level], run_fails=True)
    assert (found.suspects, found.certain) == ((0,), False)
    localized = SimpleNamespace(conclusion=found, parts=PARTS, first=0, steps=PARTS[1:-1])
    assert verdict(cast(Localized, localized)) == "program is probably wrong: no continuation is right"


def test_a_step_of_another_catalog_stays_a_suspect_in_each_release() -> None:
    parts = [*read()[:2], replace(PARTS[2], own=True), *PARTS[3:]]
    without_jit = [each for each in OTHERS if each.level and each.continuation != "jit"]
    assert conclude(parts, without_jit, run_fails=True).suspects == (0, 2)
    assert conclude(read(), without_jit, run_fails=True).suspects == (0,)


@pytest.mark.parametrize(
    ("observations", "suspects"),
    [
        pytest.param([replace(each, answer=OTHER) for each in OTHERS], [0, 1, 2, 3, 4], id="in another way"),
        pytest.param([own("22", level, SAME) for level in range(4)], [0, 1, 2, 3, 4], id="in one release"),
        pytest.param([*OTHERS, seen("iree", 1, RIGHT, part("iree"))], [2, 3, 4], id="not from the first step on"),
    ],
)
def test_where_runs_fail_otherwise_the_program_is_not_blamed(
    observations: list[LevelObservation], suspects: list[int]
) -> None:
    assert list(conclude(PARTS, observations, run_fails=True).suspects) == suspects


def test_runs_that_fail_with_equal_signatures_are_the_same_answer() -> None:
    poisoned = result(
        "own", "run-failed", stage=Stage.RUN, reason="7 of 8 elements depend on memory that nothing has written"
    )
    assert answer_of(poisoned, replace(poisoned, reason="6" + poisoned.reason[1:]), poisoned) == SAME
    assert answer_of(poisoned, replace(poisoned, reason="the kernel raised"), poisoned) == OTHER
    assert answer_of(poisoned, replace(poisoned, outcome=Outcome.TIMED_OUT), poisoned) == OTHER
    refused = replace(poisoned, stage=Stage.LOWER)
    assert answer_of(refused, refused, refused) == OTHER


@pytest.mark.parametrize(
    ("answers", "why"),
    [
        ({}, "nothing else executes what is between them"),
        ({1: NONE}, "nothing else executes what is between them"),
        ({0: RIGHT, 3: SAME}, "nothing else executes what is between them"),
        ({1: SAME}, "no continuation is right"),
        ({0: RIGHT, 1: OTHER}, "what else executes the IR between them does not clear any of them"),
    ],
)
def test_the_verdict_on_several_parts_agrees_with_the_table(answers: Mapping[int, Answer], why: str) -> None:
    cells = [
        SimpleNamespace(continuation=SimpleNamespace(level=level), answer=answer) for level, answer in answers.items()
    ]
    conclusion = Conclusion(suspects=(1, 3), cleared={})
    localized = SimpleNamespace(conclusion=conclusion, parts=PARTS, first=0, steps=PARTS[1:-1], cells=cells)
    assert verdict(cast(Localized, localized)) == f"cannot tell which is wrong: step fuse or step object; {why}"


def test_where_each_part_is_right_somewhere_no_part_is_named() -> None:
    through_target = LevelObservation(continuation="jit", level=1, parts=(part("jit"), PARTS[-1]), answer=RIGHT)
    found = conclude(PARTS, [through_target, seen("runner", 3, RIGHT)])
    assert (found.suspects, found.contested, found.certain) == ((), (), False)
    localized = SimpleNamespace(conclusion=found, parts=PARTS, first=0, steps=PARTS[1:-1])
    assert "each part is right in some continuation" in verdict(cast(Localized, localized))
