"""Releases: what ranges hold at the precision that they give, which release a word means, which one is nearest."""

from __future__ import annotations

import operator
from itertools import zip_longest

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlir_matrix.catalog.releases import RangeError, find, nearest_release, number, parse_range

NUMBERS = st.lists(st.integers(0, 30), min_size=1, max_size=4)
TAILS = st.sampled_from(["", "+torch-mlir.20261001", "-dev", "~rc1", "rc2"])
RELEASES = st.builds("{}{}".format, NUMBERS.map(lambda parts: ".".join(map(str, parts))), TAILS)
COMPARE = {"": operator.eq, "==": operator.eq, "!=": operator.ne, ">=": operator.ge, "<=": operator.le,
           ">": operator.gt, "<": operator.lt}  # fmt: skip


@pytest.mark.parametrize(
    ("release", "expected"),
    [
        ("19.1.7", (19, 1, 7)),
        ("20261001", (20261001,)),
        ("24.0.0+torch-mlir.20261001", (24, 0, 0)),
        ("24.0.0-dev.3", (24, 0, 0)),
        ("1.2rc1", (1, 2)),
        ("1.", (1,)),
        ("v1", ()),
        ("", ()),
    ],
)
def test_only_the_number_of_a_release_is_compared(release: str, expected: tuple[int, ...]) -> None:
    assert number(release) == expected


@pytest.mark.parametrize(
    ("text", "right", "wrong"),
    [
        ("18", ["18", "18.1.8", "18.0.0+x"], ["17.0.6", "19.1.7", "1.8", "180"]),
        ("19.1", ["19.1.7", "19.1"], ["19.2.0", "19.0.1", "19"]),
        ("==19.1.7", ["19.1.7", "19.1.7+x"], ["19.1.6", "19.1"]),
        ("!=20", ["19.9", "21.1.8"], ["20", "20.1.8"]),
        ("<=18", ["18.1.8", "17.0.6"], ["19.0.0"]),
        ("<18", ["17.9.9"], ["18", "18.1.8"]),
        (">18", ["19.0.0"], ["18.1.8", "18"]),
        (">18.1", ["18.2", "19"], ["18.1.8", "18.1", "18"]),
        (">=18.1.8", ["18.1.8", "18.2"], ["18.1.7", "18.1", "18"]),
        (">=18,<22", ["18.0.0", "21.1.8"], ["17.9", "22.0.0", "24.0.0+deb"]),
        (" >= 18 , != 20 ", ["18", "21"], ["20.1", "17"]),
        (">=20260901", ["20261001"], ["20260831"]),
        ("0", ["0.17.0", "0"], ["1.0"]),
        (">=18.0.0", ["18"], ["17.9"]),
    ],
)
def test_ranges(text: str, right: list[str], wrong: list[str]) -> None:
    found = parse_range(text)
    assert [release for release in (*right, *wrong) if release in found] == right
    assert found.text == text


@given(RELEASES, NUMBERS, st.sampled_from(list(COMPARE)))
def test_a_part_compares_as_many_numbers_as_it_has(release: str, bound: list[int], word: str) -> None:
    shown = ".".join(map(str, bound))
    given_number = [own for own, _ in zip_longest(number(release), bound, fillvalue=0)][: len(bound)]
    assert (release in parse_range(f"{word}{shown}")) == COMPARE[word](given_number, bound)


@given(RELEASES, st.lists(st.tuples(st.sampled_from(list(COMPARE)), NUMBERS), min_size=1, max_size=4))
def test_every_part_must_hold(release: str, parts: list[tuple[str, list[int]]]) -> None:
    texts = [f"{word}{'.'.join(map(str, bound))}" for word, bound in parts]
    assert (release in parse_range(",".join(texts))) == all(release in parse_range(text) for text in texts)


@given(RELEASES, NUMBERS)
def test_a_bound_and_its_opposite_share_nothing_and_leave_nothing(release: str, bound: list[int]) -> None:
    shown = ".".join(map(str, bound))
    for word, other in ((">=", "<"), ("<=", ">"), ("==", "!=")):
        assert (release in parse_range(word + shown)) != (release in parse_range(other + shown))


@pytest.mark.parametrize(
    ("text", "part"),
    [("", ""), (">=18,", ""), ("~=18", "~=18"), ("18.*", "18.*"), ("=18", "=18"), (">=18 <22", ">=18 <22"),
     ("v18", "v18"), ("18.", "18."), (">=18,,<22", ""), ("١٨", "١٨"), ("9" * 5000, "9" * 5000)],
)  # fmt: skip
def test_ranges_that_cannot_be_read(text: str, part: str) -> None:
    with pytest.raises(RangeError) as caught:
        parse_range(text)
    assert str(caught.value) == f"'{part}' is no range of releases; write a range like '>=18,<22' or '19.1'"


@given(st.text(alphabet="0123456789.,<>=! \n$", max_size=20))
def test_any_text_is_a_range_or_refused(text: str) -> None:
    try:
        found = parse_range(text)
    except RangeError:
        return
    assert ("19.1.7" in found) in (True, False)


LLVM = ["18.1.8", "19.1.0", "19.1.7", "22.1.8", "24.0.0+torch-mlir.20261001", "24.0.0-dev"]


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ("19.1.0", "19.1.0"),
        ("19", "19.1.7"),
        ("19.1", "19.1.7"),
        ("18", "18.1.8"),
        ("24", "24.0.0-dev"),
        ("24.0.0", "24.0.0-dev"),
        ("24.0.0+torch-mlir", "24.0.0+torch-mlir.20261001"),
        ("24.0.0+torch-mlir.20261001", "24.0.0+torch-mlir.20261001"),
        ("1", None),
        ("2", None),
        ("19.", None),
        ("19.1.70", None),
        ("24.0.0+torch", "24.0.0+torch-mlir.20261001"),
        ("", None),
        ("llvm", None),
    ],
)
def test_which_release_a_word_means(wanted: str, found: str | None) -> None:
    assert find(LLVM, wanted) == found


@given(st.lists(RELEASES, max_size=6, unique=True), RELEASES)
def test_what_is_found_begins_with_the_word_and_the_full_name_wins(releases: list[str], wanted: str) -> None:
    found = find(releases, wanted)
    if wanted in releases:
        assert found == wanted
    elif found is None:
        assert not any(release.startswith(f"{wanted}.") for release in releases)
    else:
        assert found in releases
        assert found.startswith(wanted)
        assert number(found)[: len(number(wanted)) - 1] == number(wanted)[:-1]


@pytest.mark.parametrize(
    ("missing", "expected"),
    [
        ("19.1.6", "19.1.7"),
        ("19.1.1", "19.1.0"),
        ("20", "19.1.0"),
        ("21", "22.1.8"),
        ("99", "24.0.0+torch-mlir.20261001"),
        ("1", "18.1.8"),
        ("24", "24.0.0+torch-mlir.20261001"),
    ],
)
def test_nearest(missing: str, expected: str) -> None:
    assert nearest_release(LLVM, missing) == expected


def test_the_newer_of_two_that_are_as_near() -> None:
    assert nearest_release(["18", "20"], "19") == nearest_release(["20", "18"], "19") == "20"
    assert nearest_release(["19.1", "19.3"], "19.2") == "19.3"
    assert nearest_release([], "19") is None


@given(st.lists(RELEASES, min_size=1, max_size=6), RELEASES)
def test_a_release_is_nearest_to_itself(releases: list[str], missing: str) -> None:
    found = nearest_release([*releases, missing], missing)
    assert found is not None
    trimmed = [list(number(name)) for name in (found, missing)]
    for parts in trimmed:
        while parts and parts[-1] == 0:
            parts.pop()
    assert trimmed[0] == trimmed[1]
