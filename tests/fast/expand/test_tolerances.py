"""Which layer wins, what its bounds are, and that the repository's own bounds are neither loose nor too tight."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import permutations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlir_matrix.base.errors import CatalogError
from mlir_matrix.catalog.catalog import LocatedLayer
from mlir_matrix.catalog.models.base import Tolerances
from mlir_matrix.catalog.yaml_reader import parse
from mlir_matrix.expand.layers import KEYS
from mlir_matrix.expand.tolerances import Resolved, ranking

QUERY: dict[str, Any] = {
    "workload": "matmul",
    "output": "y",
    "dtype": "f32",
    "target": "x86_64",
    "pipeline": "linalg-loops",
    "framework": "jax",
    "numerics": (("contraction", "off"), ("math", "libm"), ("vectorized", False)),
}
#: What a layer has to say to match the query by each key.
MATCHING = {key: "{math: libm}" if key == "numerics" else value for key, value in QUERY.items()}
DIMS = {"M": 4, "K": 64}


def layers(text: str, workload: str | None = None) -> tuple[LocatedLayer, ...]:
    file = f"golden/{workload}/tolerances.yaml" if workload else "golden/tolerances.yaml"
    source = parse(text, file)
    documents = Tolerances.model_validate(source.data).layers
    return tuple(
        LocatedLayer(document=document, source=source, index=index, workload=workload)
        for index, document in enumerate(documents)
    )


def matching(*matches: Mapping[str, str]) -> tuple[LocatedLayer, ...]:
    """Layers that are told apart by their atol: 0, 1, 2, …"""
    lines = ["layers:"]
    for number, match in enumerate(matches):
        keys = ", ".join(f"{key}: {value}" for key, value in match.items())
        lines.append(f"  - {{match: {{{keys}}}, atol: {number}, rtol: 0, rationale: r}}")
    return layers("\n".join(lines) + "\n")


def winner(*matches: Mapping[str, str], **changes: Any) -> int:
    return int(found(matching(*matches), None, **changes).atol)


def found(candidates: tuple[LocatedLayer, ...], dims: Mapping[str, int] | None = None, **changes: Any) -> Resolved:
    values = {**QUERY, **changes}
    query = tuple(values[key] for key in KEYS)
    return ranking(candidates).resolve(query, DIMS if dims is None else dims, values["dtype"])


def test_the_order_of_keys_is_from_general_to_specific_wherever_the_layers_stand() -> None:
    single = [{key: MATCHING[key]} for key in KEYS]
    for least in range(len(KEYS) - 1):
        for pair in permutations((least, least + 1)):
            assert pair[winner(*(single[key] for key in pair))] == least + 1
    assert winner({"workload": "matmul"}, {}) == 0


def test_one_specific_key_beats_many_general_ones() -> None:
    many = {key: MATCHING[key] for key in KEYS[:-1]}
    assert winner({"framework": "jax"}, many) == 0


def test_more_keys_break_a_tie_then_the_later_layer() -> None:
    assert winner({"dtype": "f32", "workload": "matmul"}, {"dtype": "f32"}) == 0
    assert winner({"dtype": "f32"}, {"dtype": "f32"}) == 1
    assert winner({"dtype": "f32", "output": "y"}, {"dtype": "f32", "workload": "matmul"}) == 1


def test_a_layer_applies_only_where_all_its_keys_match() -> None:
    assert winner({}, {"pipeline": "linalg-*", "framework": "onnx"}) == 0
    assert winner({}, {"pipeline": "linalg-*", "framework": "onnx"}, framework="onnx") == 1
    assert winner({}, {"pipeline": "'{tosa,linalg}-loops'"}) == 1
    assert winner({}, {"dtype": "[f16, bf16]"}) == 0
    assert winner({}, {"dtype": "[f16, f32]"}) == 1


def test_layers_of_a_folder_apply_to_its_workload_only() -> None:
    general = matching({}, {"workload": "mat*"})
    special = layers("layers: [{atol: 7, rtol: 0, rationale: r}]\n", workload="matmul")
    other = layers("layers: [{atol: 8, rtol: 0, rationale: r}]\n", workload="mlp")
    contrary = layers("layers: [{match: {workload: mlp}, atol: 9, rtol: 0, rationale: r}]\n", workload="matmul")
    every = (*general, *special, *other, *contrary)
    assert found(every).atol == 7
    assert found(every, workload="mlp").atol == 8
    assert found(every, workload="gelu").atol == 0


def test_facts_match_by_each_of_their_values() -> None:
    assert winner({}, {"numerics": "{math: [polynomial, libm]}"}) == 1
    assert winner({}, {"numerics": "{math: polynomial}"}) == 0
    assert winner({}, {"numerics": "{vectorized: false}"}) == 1
    assert winner({}, {"numerics": "{vectorized: true}"}) == 0
    assert winner({}, {"numerics": "{accumulator: f32}"}) == 0
    assert winner({}, {"numerics": "{math: libm, contraction: 'on'}"}) == 0
    assert winner({}, {"numerics": "{math: libm}"}, numerics=()) == 0


def test_more_facts_are_more_specific_and_stand_between_target_and_pipeline() -> None:
    both, one = {"numerics": "{math: libm, contraction: 'off'}"}, {"numerics": "{math: libm}"}
    assert winner(both, one) == 0
    assert winner({**one, "workload": "matmul"}, one) == 0
    assert winner(both, {"target": "x86_64"}) == 0
    assert winner(both, {"pipeline": "linalg-loops"}) == 1


def test_what_fact_keeps_a_layer_out_is_said() -> None:
    text = (
        "layers:\n"
        "  - {atol: 0, rtol: 0, rationale: r}\n"
        "  - {match: {numerics: {math: [polynomial, expansion]}}, atol: 1, rtol: 0, rationale: r}\n"
        "  - {match: {numerics: {accumulator: f32}}, atol: 1, rtol: 0, rationale: r}\n"
        "  - {match: {numerics: {vectorized: true, math: libm}}, atol: 1, rtol: 0, rationale: r}\n"
    )
    assert [one.why for one in found(layers(text)).considered[1:]] == [
        "its math is polynomial or expansion, not libm",
        "its accumulator is f32, and here nothing states it",
        "its vectorized is true, not false",
    ]


def test_a_distance_in_numbers_of_the_dtype_is_a_bound_too() -> None:
    text = "layers: [{atol: 0, rtol: 0, max_ulp: 2 * sqrt(K), rationale: r}]\n"
    result = found(layers(text))
    assert (result.max_ulp, result.max_ulp_text) == (16, "2 * sqrt(K)")
    assert (found(matching({})).max_ulp, found(matching({})).max_ulp_text) == (None, None)
    with pytest.raises(CatalogError, match=r"max_ulp: .*unknown name Q"):
        found(layers(text.replace("K", "Q")))


def test_the_result_names_the_layer_and_the_reasons_of_all() -> None:
    text = (
        "layers:\n"
        "  - {atol: 1, rtol: 0, rationale: general}\n"
        "  - match: {framework: onnx}\n"
        "    atol: 2\n"
        "    rtol: 0\n"
        "    rationale: of onnx\n"
        "  - {match: {dtype: f32}, atol: 2*eps(f32), rtol: eps(dtype), rationale: of f32}\n"
    )
    result = found(layers(text))
    assert (result.location, result.rationale) == ("golden/tolerances.yaml:7:5", "of f32")
    assert (result.atol_text, result.rtol_text) == ("2*eps(f32)", "eps(dtype)")
    assert (result.atol, result.rtol) == (2 * 2.0**-23, 2.0**-23)
    assert [(one.location, one.applies) for one in result.considered] == [
        ("golden/tolerances.yaml:2:5", True),
        ("golden/tolerances.yaml:7:5", True),
        ("golden/tolerances.yaml:3:5", False),
    ]
    reasons = [one.why for one in result.considered]
    assert reasons[0] == "default layer; overridden by golden/tolerances.yaml:7:5 (more specific)"
    assert reasons[1] == "the most specific layer that matches: by dtype"
    assert reasons[2] == "its framework is onnx, not jax"


def test_where_nothing_applies_is_an_error() -> None:
    with pytest.raises(CatalogError, match="no tolerance layer applies to the output y of matmul"):
        found(matching({"framework": "onnx"}))
    with pytest.raises(CatalogError):
        found(())


MATCHES = st.lists(st.dictionaries(st.sampled_from(KEYS), st.booleans(), max_size=4), min_size=1, max_size=8)


@given(MATCHES)
def test_agrees_with_the_rule_as_it_is_written(drawn: list[dict[str, bool]]) -> None:
    wrong = {key: "{math: polynomial}" if key == "numerics" else "f64" for key in KEYS}
    matches = [{key: (MATCHING if right else wrong)[key] for key, right in match.items()} for match in drawn]
    applying = [number for number, match in enumerate(drawn) if all(match.values())]
    if not applying:
        with pytest.raises(CatalogError):
            winner(*matches)
        return
    best = max(applying, key=lambda n: (max((KEYS.index(key) for key in drawn[n]), default=-1), len(drawn[n]), n))
    assert winner(*matches) == best


def test_a_wrong_bound_is_reported_at_its_place() -> None:
    text = "layers:\n  - atol: 0\n    rtol: sqrt(Q)\n    rationale: r\n"
    with pytest.raises(CatalogError, match=r"golden/tolerances.yaml:3:5: rtol: 'sqrt\(Q\)', column 6: unknown name Q"):
        found(layers(text))


def test_a_hundred_thousand_tests_are_resolved_with_few_matches_of_globs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Globs are matched once per value of a key, not once per test."""
    from mlir_matrix.expand.layers import RankedLayer

    calls = 0
    original = RankedLayer.matches

    def counted(self: Any, key: int, value: str) -> bool:
        nonlocal calls
        calls += 1
        return original(self, key, value)

    monkeypatch.setattr(RankedLayer, "matches", counted)
    candidates = matching({}, *({"workload": f"w{number}*"} for number in range(20)), {"framework": "f1"})
    for number in range(2000):
        found(candidates, workload=f"w{number % 20}", framework=f"f{number % 10}", pipeline=f"p{number % 100}")
    assert calls == len(candidates) * (20 + 10 + 100 + 4)
