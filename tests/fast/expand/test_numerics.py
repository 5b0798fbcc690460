"""What is stated about the numerics of a test, and whose word counts."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from mlir_matrix.catalog.yaml_reader import parse
from mlir_matrix.expand.numerics import Numerics, NumericsAttribute, shown, vocabulary


def entry(name: str, numerics: str, mode: Any = None) -> Any:
    source = parse(f"description: d\nnumerics: {{{numerics}}}\n", f"{name}.yaml")
    return SimpleNamespace(
        name=name, source=source, document=SimpleNamespace(numerics=source.data["numerics"], steps=("s",), mode=mode)
    )


def catalog(workload: str = "", target: str = "", pipeline: str = "", step: str = "", framework: str = "") -> Any:
    return SimpleNamespace(
        workloads={"w": entry("w", workload)},
        targets={"t": entry("t", target)},
        frameworks={"f": entry("f", framework)},
        steps={"s": entry("s", step)},
        pipelines={"p": entry("p", pipeline), "q": entry("q", "")},
    )


def test_a_pipeline_counts_before_a_target_and_that_before_a_workload() -> None:
    numerics = Numerics(catalog("a: w, b: w, c: w, d: w", "b: t, c: t", "c: p, vectorized: true"))
    assert numerics.of("w", "t", "f", "p") == (("a", "w"), ("b", "t"), ("c", "p"), ("d", "w"), ("vectorized", True))
    assert numerics.of("w", "t", "f", "q") == (("a", "w"), ("b", "t"), ("c", "t"), ("d", "w"))
    assert numerics.of("w", "t", "f", "p") is numerics.of("w", "t", "f", "p")


def test_a_framework_counts_before_a_target_a_step_before_it_and_its_pipeline_before_that() -> None:
    made = catalog("a: w", "a: t, b: t, d: t", "c: p", step="b: s, c: s", framework="b: f, d: f")
    found = Numerics(made).stated("w", "t", "f", "p")
    assert [(each.name, each.by) for each in found if each.counts] == [
        ("a", "target t"), ("b", "step s"), ("c", "pipeline p"), ("d", "framework f"),
    ]  # fmt: skip


def test_who_states_a_fact_is_told_with_those_who_are_not_heard() -> None:
    found = Numerics(catalog("math: libm", "", "math: polynomial")).stated("w", "t", "f", "p")
    assert found == (
        NumericsAttribute(name="math", value="polynomial", by="pipeline p", position="p.yaml:2:12", counts=True),
        NumericsAttribute(name="math", value="libm", by="workload w", position="w.yaml:2:12", counts=False),
    )


def test_the_mode_of_a_target_counts_before_all_others() -> None:
    made = catalog("a: w", "a: t", "a: p")
    made.targets["t"].document.mode = ("fast", SimpleNamespace(numerics={"a": "m"}))
    assert Numerics(made).of("w", "t", "f", "p") == (("a", "m"),)
    assert [each.value for each in Numerics(made).stated("w", "t", "f", "p") if each.counts] == ["m"]
    assert vocabulary(made) == {"a": ("m", "p", "t", "w")}


def test_the_vocabulary_is_what_anything_states() -> None:
    assert vocabulary(catalog("a: x", "a: b, c: true", "c: false, a: x")) == {"a": ("b", "x"), "c": (False, True)}
    assert not vocabulary(catalog())


def test_values_are_shown_as_in_yaml() -> None:
    assert (shown(True), shown("off")) == ("true", "off")
