"""Boxes hold what their globs match; walking gives each test once, in order."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlir_matrix.base.names import TestId, test_glob
from mlir_matrix.expand.test_sets import Namespace, Rule, TestPattern, TestProduct, walk
from support.catalogs import catalog

UNIVERSE = Namespace(catalog())
RULE = Rule("block", "f:1:1")
PINS = ("", "llvm=18", "llvm=19,zig=0.16")
EVERYTHING = [cell.test(workload) for cell in walk(UNIVERSE.everything(RULE, PINS)) for workload in cell.column]
part = st.sampled_from(
    [
        "*",
        "**",
        "pytorch",
        "mlir",
        "onnx",
        "linalg-*",
        "tosa-loops",
        "tile",
        "ir",
        "x86_64",
        "{wasm,gpu}",
        "m?[mp]",
        "t*",
    ]
)
suffix = st.sampled_from(
    ["", "", "@llvm=18", "@llvm=*", "@llvm=1[89]", "@*zig=0.16", "@*", "@x=?", "@", "@llvm", "@a=1/b"]
)
globs = st.builds("{}{}".format, st.lists(part, min_size=1, max_size=5).map("/".join), suffix)
names = st.lists(st.sampled_from("abc"), min_size=1, unique=True).map(tuple)
pins = st.lists(st.sampled_from(["", "x=1", "x=2"]), min_size=1, unique=True).map(tuple)
products = st.builds(TestProduct, names, names, names, names, st.just(RULE), pins)
pins_tests = st.none() | st.frozensets(st.sampled_from(["", "x=1", "x=2", "x=3"])).map(lambda held: held.__contains__)
patterns = st.builds(TestPattern, *[st.frozensets(st.sampled_from("abcd"))] * 4, pins=pins_tests)


def members(product: TestProduct) -> list[TestId]:
    return [
        TestId(f, p, t, w, pins)
        for f in product.frameworks for p in product.pipelines for t in product.targets
        for pins in product.pins for w in product.column
    ]  # fmt: skip


def test_everything_is_all_cells_and_all_ir_tests_once() -> None:
    assert len(EVERYTHING) == len(set(EVERYTHING)) == (4 * 3 * 3 * 3 + 3) * len(PINS)
    assert ("mlir", "tile", "ir", "mm", "") in EVERYTHING


def test_without_pins_every_test_has_none() -> None:
    assert {cell.pins for cell in walk(UNIVERSE.everything(RULE))} == {""}
    assert sum(len(cell.column) for cell in walk(UNIVERSE.everything(RULE))) == 4 * 3 * 3 * 3 + 3


def test_rows_name_their_tests() -> None:
    product = TestProduct(("a",), ("b",), ("c",), ("d",), RULE, ("", "x=1"))
    assert [str(cell.test("d")) for cell in walk([product])] == ["a/b/c/d", "a/b/c/d@x=1"]


def test_pins_vary_inside_a_cell_and_before_its_workloads() -> None:
    product = TestProduct(("a",), ("b",), ("c", "d"), ("e", "f"), RULE, ("x=1", "x=2"))
    assert [str(cell.test(w)) for cell in walk([product]) for w in cell.column] == [
        f"a/b/{target}/{workload}@{pins}" for target in "cd" for pins in ("x=1", "x=2") for workload in "ef"
    ]


@given(globs)
def test_boxes_hold_exactly_what_the_glob_matches(glob: str) -> None:
    try:
        matches = test_glob(glob).matches
    except Exception as error:  # noqa: BLE001 (whatever the glob refuses, patterns refuse alike)
        with pytest.raises(type(error)):
            UNIVERSE.patterns(glob)
        return
    found = UNIVERSE.patterns(glob)
    for test in EVERYTHING:
        assert any(test in pattern for pattern in found) == matches(str(test))


@given(globs)
def test_areas_of_boxes_are_the_matching_tests(glob: str) -> None:
    try:
        matches = test_glob(glob).matches
    except Exception:  # noqa: BLE001 (tested above)
        return
    found = {
        test
        for pattern in UNIVERSE.patterns(glob)
        for product in UNIVERSE.products(pattern, RULE, PINS)
        for test in members(product)
    }
    assert found == {test for test in EVERYTHING if matches(str(test))}


@given(st.lists(products, max_size=4), st.none() | st.lists(patterns, max_size=3), st.lists(patterns, max_size=3))
def test_walking_gives_each_selected_test_once_in_order(
    parts: list[TestProduct], select: list[TestPattern] | None, marks: list[TestPattern]
) -> None:
    expected = dict.fromkeys(
        test
        for product in parts
        for test in members(product)
        if select is None or any(test in pattern for pattern in select)
    )
    cells = list(walk(parts, select, marks))
    assert [cell.test(workload) for cell in cells for workload in cell.column] == list(expected)
    for cell in cells:
        assert cell.column
        for workload in cell.column:
            test = cell.test(workload)
            assert next(product for product in parts if test in product) is cell.product
            assert [b for b in cell.marks if workload in b.workloads] == [b for b in marks if test in b]


@given(products, patterns)
def test_an_area_touches_a_box_when_they_share_a_test(product: TestProduct, pattern: TestPattern) -> None:
    assert product.touches(pattern) == any(test in pattern for test in members(product))


def test_exact_takes_every_character_literally() -> None:
    (pattern,) = UNIVERSE.exact("*/[/{/?")
    assert ("*", "[", "{", "?", "") in pattern
    assert not UNIVERSE.exact("a/b/c")


@pytest.mark.parametrize(
    ("name", "pins"),
    [("a/b/c/d", ""), ("a/b/c/d@x=1", "x=1"), ("a/b/c/d@x=*", "x=*"), ("a/b/c/d@x=1,y=2", "x=1,y=2")],
)
def test_exact_holds_the_pins_that_the_identifier_has(name: str, pins: str) -> None:
    (pattern,) = UNIVERSE.exact(name)
    for other in ("", "x=1", "x=*", "x=1,y=2"):
        assert (("a", "b", "c", "d", other) in pattern) == (other == pins)


@pytest.mark.parametrize(
    ("glob", "why"),
    [
        ("pytorhc/**", "there is no framework 'pytorhc'; did you mean 'pytorch'?"),
        ("*/*/*/q*", "no workload matches 'q*'"),
        ("jax/*/ir/*", "the catalog has no test with this combination"),
    ],
)
def test_why_a_glob_matches_nothing(glob: str, why: str) -> None:
    assert UNIVERSE.why_nothing(glob) == why
