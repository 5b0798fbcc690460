"""Tolerance layers: the attributes that they ask for are stated, and each layer wins somewhere."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from mlir_matrix.actions.numerics import dtypes
from mlir_matrix.actions.numerics.criteria import Criteria, compare_block
from mlir_matrix.base.errors import CatalogError
from mlir_matrix.catalog.bounds import LARGEST, vacuous
from mlir_matrix.expand.layers import RankedLayer
from mlir_matrix.expand.tolerances import ranking

GENERAL = "golden/tolerances.yaml"
PLAIN = "recipes/pipelines/plain.yaml"
SUMS = "matrix/workloads/sums/workload.yaml"
X86 = "matrix/targets/x86_64/target.yaml"
PYTORCH = "matrix/frameworks/pytorch/framework.yaml"


def layers(*matches: str) -> str:
    lines = [f"  - {{match: {{{match}}}, atol: 1, rtol: 0, rationale: r}}\n" for match in matches]
    return "layers:\n" + "".join(lines)


@pytest.fixture
def stated(tree: Any) -> Any:
    """Make a catalog whose files state numerics attributes."""
    (tree.path / "golden/mlp/tolerances.yaml").unlink()
    tree.write(PLAIN, (tree.path / PLAIN).read_text() + 'numerics: {contraction: "off", vectorized: false}\n')
    tree.write(SUMS, (tree.path / SUMS).read_text() + "numerics: {accumulator: f64, contraction: fast}\n")
    tree.write(X86, (tree.path / X86).read_text() + "numerics: {libm: musl}\n")
    tree.write(PYTORCH, (tree.path / PYTORCH).read_text() + "numerics: {accumulator: f32}\n")
    return tree


@pytest.mark.parametrize(
    ("match", "error"),
    [
        ("numerics: {contractoin: x}",
         "3:25: no file states the numerics attribute 'contractoin'; did you mean 'contraction'?"),
        ("numerics: {libm: [musl, glibc]}", "3:25: no file states 'libm: glibc'; known: musl"),
        ("numerics: {contraction: false}",
         "3:25: no file states 'contraction: false'; put on and off in quotes: YAML takes them for "
         "true and false"),
        ("numerics: {vectorized: true}", "3:25: no file states 'vectorized: true'; known: false"),
        ("numerics: {}", "3:14: 'layers[1].match.numerics' must not be empty"),
        ("numerics: {contraction: 3}", ""),
    ],
)  # fmt: skip
def test_facts_that_nobody_states(stated: Any, match: str, error: str) -> None:
    stated.write(GENERAL, layers("", match))
    (found,) = stated.errors()
    assert found.startswith(f"{GENERAL}:3:")
    if error:
        assert found == f"{GENERAL}:{error}"


@pytest.mark.parametrize(
    "match",
    [
        "numerics: {libm: musl}",
        "numerics: {libm: [musl], contraction: 'off'}",
        "numerics: {accumulator: f64}",
        "numerics: {vectorized: false}, workload: mlp",
    ],
)
def test_facts_that_somebody_states(stated: Any, match: str) -> None:
    stated.write(
        GENERAL, layers("", match, "framework: pytorch, workload: mlp") if "accumulator" in match else layers(match)
    )
    assert stated.load().layers


def nothing(line: int, wishes: str) -> str:
    return f"{GENERAL}:{line}:5: this layer matches nothing: no output of any test is all of {wishes}"


def hidden(line: int, *others: int) -> str:
    names = ", ".join(f"{GENERAL}:{other}:5" for other in others)
    return f"{GENERAL}:{line}:5: this layer never wins: wherever it matches, a more specific one matches too ({names})"


@pytest.mark.parametrize(
    ("matches", "errors"),
    [
        (["", "dtype: f16"], [nothing(3, "dtype f16")]),
        (["", "output: sum, dtype: i32"], [nothing(3, "output sum, dtype i32")]),
        # The pipeline's word counts, so that nothing contracts.
        (["", "numerics: {contraction: fast}"], [nothing(3, "numerics contraction: fast")]),
        (["", "workload: mlp, numerics: {accumulator: f64}"], [nothing(3, "workload mlp, numerics accumulator: f64")]),
        (["", ""], [hidden(2, 3)]),
        (["", "target: x86_64"], [hidden(2, 3)]),
        (["", "dtype: [f32, f64]", "dtype: i32"], [hidden(2, 4, 3)]),
        (["dtype: f32", "workload: mlp", "framework: mlir", ""], [hidden(3, 4, 2)]),
        (["", "numerics: {vectorized: false}", "pipeline: plain"], [hidden(2, 4), hidden(3, 4)]),
        (["", "workload: mlp", "output: sum", "dtype: i32"], [hidden(2, 5, 4, 3)]),
        (["", "workload: mlp", "output: sum"], []),
    ],
)
def test_layers_that_decide_nothing(stated: Any, matches: Sequence[str], errors: list[str]) -> None:
    stated.write(GENERAL, layers(*matches))
    if errors:
        assert stated.errors() == errors
    else:
        assert stated.load().layers


def test_what_is_misspelt_is_told_once(stated: Any) -> None:
    stated.write(GENERAL, layers("", "workload: mpl"))
    assert stated.errors() == [f"{GENERAL}:3:14: there is no workload 'mpl'; did you mean 'mlp'?"]


def test_a_catalog_that_joins_may_hide_what_was_there(stated: Any, make_tree: Callable[..., Any]) -> None:
    stated.write(GENERAL, layers(""))
    other = make_tree("other", {GENERAL: layers("")})
    assert len(stated.load(other.path).layers) == 2
    # But not what it brings itself.
    other.write(GENERAL, layers("", "target: x86_64"))
    (error,) = stated.errors(other.path)
    assert error.startswith(f"{other.path}/{GENERAL}:2:5: this layer never wins")
    stated.write(GENERAL, layers("", "workload: mlp, framework: '*'"))
    other.write(GENERAL, layers("workload: mlp"))
    (error,) = stated.errors(other.path)
    assert error.startswith(f"{other.path}/{GENERAL}:2:5: this layer never wins")
    assert error.endswith(f"({GENERAL}:3:5)")


def test_a_wrong_distance_in_numbers(stated: Any) -> None:
    stated.write(GENERAL, "layers: [{atol: 1, rtol: 0, max_ulp: -1, rationale: r}]\n")
    assert stated.errors() == [f"{GENERAL}:1:29: 'max_ulp' is -1; a bound is 0 or more"]
    stated.write(GENERAL, "layers: [{atol: 1, rtol: 0, max_ulp: sqrt(J), rationale: r}]\n")
    (error,) = stated.errors()
    assert error.startswith(f"{GENERAL}:1:29: 'sqrt(J)', column 6: unknown name J")


CHOICES = {
    "workload": ["mlp", "sums", "'*'"],
    "output": ["y", "sum", "number", "'*'"],
    "dtype": ["f32", "f64", "[f32, i32]"],
    "target": ["x86_64"],
    "numerics": ["{contraction: 'off'}", "{accumulator: f64}", "{accumulator: f32}", "{libm: musl, vectorized: false}"],
    "pipeline": ["plain"],
    "framework": ["pytorch", "mlir", "'*'"],
}
MATCH = st.fixed_dictionaries({}, optional={key: st.sampled_from(values) for key, values in CHOICES.items()})


@given(st.lists(MATCH, min_size=1, max_size=5))
def test_it_is_what_asking_for_every_test_shows(stated: Any, drawn: list[dict[str, str]]) -> None:
    """The layers that loading calls dead are those that win for no output when all tests are asked for, one by one."""
    matches = [", ".join(f"{key}: {value}" for key, value in match.items()) for match in drawn]
    stated.write(GENERAL, layers(""))
    catalog = stated.load()
    stated.write(GENERAL, layers(*matches))
    losers = set(range(2, 2 + len(matches))) - winners(stated, catalog)
    try:
        stated.load()
        dead: set[int] = set()
    except CatalogError as error:
        lines = str(error).split("\n")
        # An output that the workload has not is told before.
        assume(all("this layer" in line for line in lines))
        dead = {int(line.split(":")[1]) for line in lines}
    assert dead == losers


OUTPUTS = [("mlp", "y"), ("sums", "sum"), ("sums", "number")]
DTYPES = {"y": "f32", "sum": "f64", "number": "i32"}


def winners(stated: Any, catalog: Any) -> set[int]:
    """The lines of the layers in the general file that win for any output of any test."""
    from mlir_matrix.catalog.catalog import LocatedLayer
    from mlir_matrix.catalog.models.base import Tolerances
    from mlir_matrix.catalog.yaml_reader import parse
    from mlir_matrix.expand.numerics import Numerics

    source = parse((stated.path / GENERAL).read_text(), GENERAL)
    found = tuple(
        LocatedLayer(document=document, source=source, index=index, workload=None)
        for index, document in enumerate(Tolerances.model_validate(source.data).layers)
    )
    won = set()
    for workload, output in OUTPUTS:
        for framework in catalog.frameworks:
            attributes = Numerics(catalog).of(workload, "x86_64", framework, "plain")
            query = (workload, output, DTYPES[output], "x86_64", attributes, "plain", framework)
            applying = [
                ranked
                for ranked in ranking(found).ranked
                if all(ranked.matches(key, value) for key, value in enumerate(query))
            ]
            if applying:
                won.add(2 + applying[-1].layer.index)
    return won


def test_ranks_are_in_the_order_of_the_keys(stated: Any) -> None:
    stated.write(GENERAL, layers("workload: mlp", "numerics: {libm: musl}, output: sum", "dtype: i32"))
    ranks = [RankedLayer(layer).rank for layer in stated.load().layers]
    assert ranks == [(0, 1), (4, 2), (2, 1)]


ZEROS = "all zeros are within it"


@pytest.mark.parametrize(
    ("bounds", "error"),
    [
        ("atol: 0, rtol: 1", f"'rtol' is 1 for the f32 output mlp/y: {ZEROS}, whatever is expected; it must be less than 1"),
        ("atol: 1e308, rtol: 0",
         f"'atol' is 1e+308 for the f32 output mlp/y: {ZEROS}, whatever is expected: no f32 is larger than 3.40282e+38"),
        ("atol: eps(dtype)**-40, rtol: 0", "'atol' is 8.86331e+276 for the f32 output mlp/y"),
        ("atol: 3e38, rtol: 0.5", f"'atol' is 3e+38 for the f32 output mlp/y: {ZEROS} with an rtol of 0.5"),
        ("atol: 0, rtol: K / 4", "'rtol' is 8 for the f32 output mlp/y"),
        ("atol: 0, rtol: 0, max_ulp: 2 ** 23",
         "'max_ulp' is 8.38861e+06 for the f32 output mlp/y: the double is as good as what is expected; it must be less than 8388"),
    ],
)  # fmt: skip
def test_bounds_that_can_tell_nothing(tree: Any, bounds: str, error: str) -> None:
    """Each with its place, the output at which it is so, the value and what would be right."""
    (tree.path / "golden/mlp/tolerances.yaml").unlink()
    tree.write(GENERAL, layers("") + f"  - {{match: {{workload: mlp}}, {bounds}, rationale: r}}\n")
    (found,) = tree.errors()
    column = f"  - {{match: {{workload: mlp}}, {bounds}".index(error.split("'")[1]) + 1
    assert found.startswith(f"{GENERAL}:3:{column}: {error}")


def test_a_layer_of_another_dtype_is_held_to_its_own(tree: Any) -> None:
    """No f32 is so large, but these outputs are f64 and exact."""
    (tree.path / "golden/mlp/tolerances.yaml").unlink()
    tree.write(GENERAL, layers("") + "  - {match: {dtype: [f64, i32]}, atol: 1e300, rtol: 0, rationale: r}\n")
    assert tree.load().layers


@given(
    dtype=st.sampled_from(["f64", "f32", "f16", "bf16", "i32", "i8", "u32", "u16", "u8"]),
    atol=st.floats(0, 1e308) | st.sampled_from([0.0, 127.0, 128.0, 255.0, 65503.0, 65504.0, 2.0**31]),
    rtol=st.floats(0, 2),
)
def test_a_bound_is_refused_exactly_where_zeros_always_pass(dtype: str, atol: float, rtol: float) -> None:
    """The largest number of a dtype is the last for which zeros fail."""
    largest = np.array([LARGEST[dtype]])
    if dtype[0] in "iu":
        info = np.iinfo(dtypes.STORAGE[dtype])
        largest = np.array([info.max if dtype[0] == "u" else info.min], dtype=dtypes.STORAGE[dtype])
    zeros = np.zeros(1, dtype=dtypes.STORAGE[dtype])
    passes = not compare_block(0, zeros, largest, dtype, Criteria(atol=atol, rtol=rtol)).wrong.any()
    # Rounding decides where a bound is met to the last place.
    assume(rtol == 0 or abs(atol / LARGEST[dtype] + rtol - 1) > 1e-12)
    assert bool(vacuous({"atol": atol, "rtol": rtol}, dtype)) == passes
