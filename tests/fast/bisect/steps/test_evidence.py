"""What the answers of continuations say about the parts of a failing test."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest

from mlir_matrix.bisect.steps.evidence import Answer, LevelObservation, Part, conclude
from mlir_matrix.bisect.steps.localize import Localized
from mlir_matrix.bisect.steps.report import verdict

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


def test_where_each_part_is_right_somewhere_no_part_is_named() -> None:
    through_target = LevelObservation(continuation="jit", level=1, parts=(part("jit"), PARTS[-1]), answer=RIGHT)
    found = conclude(PARTS, [through_target, seen("runner", 3, RIGHT)])
    assert (found.suspects, found.contested, found.certain) == ((), (), False)
    localized = SimpleNamespace(conclusion=found, parts=PARTS, first=0, steps=PARTS[1:-1])
    assert "each part is right in some continuation" in verdict(cast(Localized, localized))
