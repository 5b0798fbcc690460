"""Programs that are composed at random mean the same in each of their forms."""

from __future__ import annotations

from itertools import islice
from typing import Any

import numpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlir_matrix.fuzz.compose import Composer, Coverage
from mlir_matrix.fuzz.elementwise import LARGEST
from mlir_matrix.fuzz.profiles import PROFILES
from mlir_matrix.fuzz.programs import document, text_of
from mlir_matrix.fuzz.python_text import REFERENCE
from mlir_matrix.fuzz.structural import MOST_ELEMENTS
from mlir_matrix.fuzz.values import BOOL, Program, ProgramValue, merged

DTYPES = {"f64": numpy.float64, "f32": numpy.float64, "f16": numpy.float64, "bf16": numpy.float64, "i32": numpy.int32}


def composed(seed: int, profile: int, count: int = 1) -> list[Program]:
    """Programs of a profile."""
    composer = Composer(str(seed), PROFILES[profile], Coverage())
    return list(islice(composer.programs((1, 8)), count))


def elements(value: ProgramValue, chance: numpy.random.Generator) -> Any:
    """Elements of an input, with both ends of its interval."""
    if value.type.dtype == BOOL:
        return chance.random(value.type.shape) < 0.5
    found = chance.uniform(value.range.low, value.range.high, value.type.shape)
    found.flat[0] = value.range.low
    found.flat[-1] = value.range.high
    return found.astype(DTYPES[value.type.dtype])


@given(st.integers(0, 10**6), st.integers(0, len(PROFILES) - 1))
def test_references_keep_shapes_and_intervals(seed: int, profile: int) -> None:
    """Also with inputs at the ends of their intervals."""
    (program,) = composed(seed, profile)
    names: dict[str, Any] = {}
    exec(text_of(program, REFERENCE), names)
    chance = numpy.random.default_rng(seed)
    inputs = {value.name: elements(value, chance) for value in program.inputs}
    results = names["reference"](**{name: inputs.get(name) for name in program.parameters})
    results = results if isinstance(results, tuple) else (results,)
    for value, result in zip(program.returned, results, strict=True):
        assert result.shape == value.type.shape
        assert value.type.elements <= MOST_ELEMENTS
        slack = 1e-9 * LARGEST
        assert value.range.low - slack <= result.min(initial=value.range.high)
        assert result.max(initial=value.range.low) <= value.range.high + slack


@given(st.integers(0, 10**6), st.integers(0, len(PROFILES) - 1))
@settings(max_examples=25)
def test_a_seed_gives_the_same_programs(seed: int, profile: int) -> None:
    first, again = (
        [text_of(program, source) for program in composed(seed, profile, 3) for source in PROFILES[profile].sources]
        for _ in range(2)
    )
    assert first == again


def test_each_operation_follows_each_other() -> None:
    """Of 40 operations there are 1,600 pairs."""
    coverage = Coverage()
    composer = Composer("0", PROFILES[0], coverage)
    list(islice(composer.programs((4, 8)), 1500))
    known = PROFILES[0].operations
    assert set(coverage.operations) == set(known)
    made = sum(bool(coverage.pairs[first, second]) for first in known for second in known)
    assert made > 0.5 * len(known) ** 2


@pytest.mark.parametrize("profile", range(len(PROFILES)))
def test_programs_of_a_batch_have_names_of_their_own(profile: int) -> None:
    whole = merged(composed(1, profile, 20))
    names = [value.name for value in whole.inputs] + [each.result.name for each in whole.statements]
    assert len(set(names)) == len(names)
    known = {value.name for value in whole.inputs}
    for statement in whole.statements:
        assert {value.name for value in statement.operands} <= known
        known.add(statement.result.name)


def test_sizes_and_conditions_are_read_from_an_input() -> None:
    (profile,) = (number for number, each in enumerate(PROFILES) if each.dynamic)
    programs = composed(1, profile, 20)
    text = text_of(merged(programs), "linalg.mlir")
    assert text.startswith("func.func @main(%sizes: tensor<64xi32>, ")
    for part in ("tensor.empty(%size", "x?x", "scf.if %", " to %size1 step "):
        assert part in text
    assert next(iter(document(programs[0], ())["inputs"])) == "sizes"
    (static,) = composed(1, 0)
    assert "sizes" not in document(static, ())["inputs"]


def test_other_inputs() -> None:
    (program,) = composed(1, 0)
    first, second = (document(program.with_inputs(seed), ())["inputs"] for seed in (0, 1))
    assert not {each["seed"] for each in first.values()} & {each["seed"] for each in second.values()}
