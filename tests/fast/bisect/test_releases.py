"""The releases of a component as an axis."""

from __future__ import annotations

from typing import Any

import pytest

from mlir_matrix.base.errors import UsageError
from mlir_matrix.bisect.releases import Axis, default_component, make_axis
from support.catalogs import catalog

PROGRAMS = ("16.0.6", "17.0.6", "18.1.8", "22.1.8")


def test_programs_are_compared_with_programs() -> None:
    axis = make_axis(catalog(), "llvm")
    assert (axis.names, axis.left_out) == (PROGRAMS, ("19.1.7",))
    assert make_axis(catalog(), "llvm", good="16", bad="18").left_out == (), "it is not between"
    assert make_axis(catalog(), "llvm", bindings=True).names == (*PROGRAMS[:3], "19.1.7", PROGRAMS[3])
    assert make_axis(catalog(), "llvm", bad="19").names == (*PROGRAMS[:3], "19.1.7"), "an end that is named"


@pytest.mark.parametrize(
    ("ends", "expected"),
    [
        ({"good": "17", "bad": "22"}, PROGRAMS[1:]),
        ({"good": "22", "bad": "17"}, PROGRAMS[1:]),
        ({"good": "17"}, PROGRAMS[1:]),
        ({"bad": "17"}, PROGRAMS[:2]),
        ({"good": "17", "fixed": True}, PROGRAMS[:2]),
        ({"bad": "17", "fixed": True}, PROGRAMS[1:]),
    ],
)
def test_ends(ends: dict[str, Any], expected: tuple[str, ...]) -> None:
    assert make_axis(catalog(), "llvm", **ends).names == expected


@pytest.mark.parametrize(
    ("asked", "reason"),
    [
        ({"component": "lllvm"}, "there is no component 'lllvm'; did you mean 'llvm'"),
        ({"component": "llvm", "good": "20"}, "llvm has no release '20'; it has 16.0.6, 17.0.6"),
        (
            {"component": "llvm", "good": "17", "bad": "17.0"},
            "--good 17 and --bad 17.0 are the same release, llvm 17.0.6",
        ),
        ({"component": "llvm", "good": "22"}, "llvm has 1 release to bisect"),
    ],
)
def test_wrong_ends(asked: dict[str, Any], reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        make_axis(catalog(), **asked)


def test_labels_are_the_shortest_that_differ() -> None:
    assert Axis(component="c", names=("9.1", "10.0.1", "10.0.2", "24.0.0+x.1")).labels() == [
        "9",
        "10.0.1",
        "10.0.2",
        "24",
    ]
    assert Axis(component="c", names=("24.0.0+a", "24.0.0+b")).labels() == ["24.0.0+a", "24.0.0+b"]


@pytest.mark.parametrize(
    ("names", "reason"),
    [
        (["nobody/nothing/nowhere/never"], "nobody"),
        (["smoke"], "smoke: a bisection takes tests, not suites"),
    ],
)
def test_names_that_have_no_component(names: list[str], reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        default_component(catalog(), names)
