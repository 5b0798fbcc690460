# ruff: noqa: E501 (tables of sentences)
"""What a person reads when a file does not say what it should."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from mlir_matrix.catalog import messages
from mlir_matrix.catalog.models import base, suites, toolchains
from mlir_matrix.catalog.yaml_reader import parse

NAME_RULE = "letters, digits and '_', '+', '-', '.' between them, with a letter or digit first"


def model_of(name: str) -> Any:
    return getattr(next(module for module in (suites, toolchains, base) if hasattr(module, name)), name)


def said(model: str, text: str) -> list[str]:
    """The sentences about a file, each with its line and column."""
    source = parse(text, "f")
    with pytest.raises(ValidationError) as caught:
        model_of(model).model_validate(source.data)
    found = messages.sentences(model_of(model), source.data, caught.value)
    return sorted(f"{source.position(*path)}: {sentence}"[2:] for path, sentence in found)


@pytest.mark.parametrize(
    ("model", "text", "sentences"),
    [
        ("Kind", "desciption: x\nfile: a", [
            "1:1: the key 'description' is missing; it takes text",
            "1:1: unknown key 'desciption'; did you mean 'description'?",
        ]),
        ("Kind", "description: x\nfile: a\nzzz: 1", ["3:1: unknown key 'zzz'; known: canonical, description, extends, file, main, ops, types"]),
        ("Kind", "description:\nfile: a b", [
            "1:1: 'description': expected text, got nothing",
            f"2:1: 'a b' is not a name: {NAME_RULE}",
        ]),
        ("Kind", 'description: ""\nfile: ../a', [
            "1:1: 'description' must not be empty",
            f"2:1: '../a' is not a name: {NAME_RULE}",
        ]),
        ("Kind", f"description: x\nfile: {'a' * 65}", ["2:1: 'file' is too long: 65, 64 at most"]),
        ("Component", "description: x\nreleases: [{release: 3.10}]", [
            "2:13: 'releases[0].release': expected a name, got the number 3.1; put it in quotes",
        ]),
        ("Component", "description: x\nreleases: [{release: 20261001, provider: dep}]\nprovider: pip", [
            "2:13: 'releases[0].release': expected a name, got the number 20261001; put it in quotes",
            "2:32: 'releases[0].provider': 'dep' is none of pypi, deb, host, source; did you mean 'deb'?",
            "3:1: 'provider': 'pip' is none of pypi, deb, host, source",
        ]),
        ("Component", "description: x\nreleases: []", ["2:1: 'releases' must not be empty"]),
        ("Component", "description: x\nrelease: '1'", [
            "1:1: the key 'releases' is missing; it takes a list of groups of the keys release, provider, commit, durability, "
            "carries, bindings, distributions, suites, version, programs, link",
            "2:1: unknown key 'release'; did you mean 'releases'?",
        ]),
        ("KnownGood", "pin: {}\nenvironments: {zig: {ziglang: 0.17}}", [
            "1:1: the key 'pins' is missing; it takes keys, each with a name",
            "1:1: unknown key 'pin'; did you mean 'pins'?",
            "2:22: 'environments.zig.ziglang': expected a name, got the number 0.17; put it in quotes",
        ]),
        ("Step", "description: x\nenvironment: e\naccepts: [a]\nvariants: [{when: {}}, {when: {llvm: 19}}, {pases: p}]\nrequires: [{component: a}]", [
            "4:32: 'variants[1].when.llvm': expected text, got the number 19; put it in quotes",
            "4:45: unknown key 'pases'; did you mean 'passes'?",
            "5:12: the key 'reason' is missing; it takes text",
        ]),
        ("Target", "description: x\ntriple: x\naccepts: object\nmachine: [x86_64, 3]\nnumerics: {contraction: 1}", [
            "3:1: 'accepts': expected a list of names, got the text 'object'; write [object]",
            "4:19: 'machine[1]': expected a name, got the number 3; put it in quotes",
            "5:12: 'numerics.contraction': expected text or true or false, got the number 1",
        ]),
        ("Target", "description: x\ntriple: x\naccepts: []\nmachine: 7", [
            "3:1: 'accepts' must not be empty",
            "4:1: 'machine': expected a list of names, got the number 7",
        ]),
        ("Workload", "description: x\ndims: {B: x}\ninputs: {x: {shape: [B, 1.5, a b], dtype: fp32, formula: 1}, y: 3}\noutputs: {}", [
            "2:8: 'dims.B': expected a whole number, got the text 'x'",
            "3:25: 'inputs.x.shape[1]': expected a whole number or a name, got the number 1.5",
            f"3:30: 'a b' is not a name: {NAME_RULE}",
            "3:36: 'inputs.x.dtype': 'fp32' is none of f64, f32, f16, bf16, i64, i32, i16, i8, u64, u32, u16, u8, bool, c64, c128; "
            "did you mean 'f32'?",
            "3:49: 'inputs.x.formula': expected text, got the number 1; put it in quotes",
            "3:62: 'inputs.y': expected the keys shape, dtype, formula, seed, got the number 3",
        ]),
        ("Step", "description: x\nenvironment: e\naccepts: [a]\nnative: 1\nparameters: {p: {description: x, default: {}}}", [
            "4:1: 'native': expected true or false, got the number 1",
            "5:34: 'parameters.p.default': expected true or false, a number, text or a list of these, got keys with values",
        ]),
        ("Pipeline", "description: x\nentry: {a: [{stp: b}]}\nsteps: [{step: a, with: {x: [1, [2]], y: }}, 3]", [
            "2:13: the key 'step' is missing; it takes a name",
            "2:14: unknown key 'stp'; did you mean 'step'?",
            "3:33: 'steps[0].with.x[1]': expected true or false, a number or text, got a list",
            "3:39: 'steps[0].with.y': expected true or false, a number, text or a list of these, got nothing",
            "3:46: 'steps[1]': expected a name or the keys step, with, got the number 3",
        ]),
        ("Pipeline", 'description: x\nentry: {"a b": []}\nsteps: {a: b}', [
            f"2:9: 'a b' is not a name: {NAME_RULE}",
            "3:1: 'steps': expected a list of names or groups of the keys step, with, got keys with values",
        ]),
        ("Suite", "description: x\nblocks: [{product: {framwork: [a], target: a}}]\nexclude: [{tests: [a b], reason: }]", [
            "2:21: unknown key 'framwork'; did you mean 'framework'?",
            "2:36: 'blocks[0].product.target': expected a list of patterns for names, got the text 'a'; write [a]",
            "3:20: 'a b' is not a pattern: names with '*', '?', '[a-z]' and '{a,b}', and '/' in those for tests",
            "3:26: 'exclude[0].reason': expected text, got nothing",
        ]),
        ("Suite", "description: x\nexpect: [{tests: [a], outcome: failed, reason: x}]", [
            "2:23: 'expect[0].outcome': 'failed' is none of unsupported, skipped, import-failed, lower-failed, codegen-failed, "
            "run-failed, mismatch, slower, pass, crashed, timed-out, infra-error; did you mean 'run-failed'?",
        ]),
        ("Tolerances", "layers: [{match: {workload: 3, dtype: [f31]}, atol: [1], rtol: true}, 4]", [
            "1:10: the key 'rationale' is missing; it takes text",
            "1:19: 'layers[0].match.workload': expected a list of patterns for names or a pattern for names, got the number 3",
            "1:40: 'layers[0].match.dtype[0]': 'f31' is none of f64, f32, f16, bf16, i64, i32, i16, i8, u64, u32, u16, u8, bool; did you mean 'f32'?",
            "1:47: 'layers[0].atol': expected a number or text, got a list",
            "1:58: 'layers[0].rtol': expected a number or text, got true",
            "1:71: 'layers[1]': expected the keys match, atol, rtol, max_ulp, derived, rationale, got the number 4",
        ]),
        ("Framework", "description: x\nenvironment: e\nemits: [torch]", [
            "3:1: 'emits': expected keys, each with a name, got a list",
        ]),
    ],
)  # fmt: skip
def test_sentences(model: str, text: str, sentences: list[str]) -> None:
    assert said(model, text) == sentences


def test_a_sentence_for_what_no_rule_covers() -> None:
    class Strange(base.Document):
        number: int

    source = parse("number: 3.5", "f")
    with pytest.raises(ValidationError) as caught:
        Strange.model_validate(source.data)
    ((path, sentence),) = messages.sentences(Strange, source.data, caught.value)
    assert path == ("number",)
    assert "'number'" in sentence


MODELS = [base.Kind, base.Framework, base.Workload, base.Step, base.Pipeline, base.Target, suites.Suite,
          base.Tolerances, toolchains.Environment, toolchains.Component, toolchains.KnownGood]  # fmt: skip
KEYS = st.sampled_from(
    ["description", "file", "emits", "inputs", "outputs", "x", "shape", "dtype", "formula", "steps", "step", "with", "entry",
     "parameters", "default", "blocks", "product", "zip", "framework", "layers", "match", "workload", "atol", "str", "int",
     "StepUse", "a b", "", "expect", "tests", "dims"]
)  # fmt: skip
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-3, 3)
    | st.just(0.5)
    | st.sampled_from(["", "a", "a b", "f32", "*", "\x00"])
)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=5), max_leaves=15
)


@given(st.sampled_from(MODELS), st.dictionaries(KEYS, VALUES, max_size=6))
def test_whatever_is_wrong_gives_short_sentences_at_places_that_are_there(model: Any, data: dict[str, Any]) -> None:
    try:
        model.model_validate(data)
    except ValidationError as error:
        found = messages.sentences(model, data, error)
        assert found, "something is wrong, and nothing is said"
        for path, sentence in found:
            assert sentence.isprintable()
            assert len(sentence) < 400
            around: Any = data
            for key in path[:-1]:
                around = around[key]
            assert isinstance(around, (dict, list))
        assert len(found) == len({path for path, _ in found})
