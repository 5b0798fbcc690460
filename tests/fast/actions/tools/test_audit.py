"""The audit of outputs made by hand: what matters, what the judge catches, what gets through."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mlir_matrix.actions.contract import Action
from mlir_matrix.actions.numerics import dtypes
from mlir_matrix.actions.runtime import prepared
from mlir_matrix.actions.tools import audit

pytestmark = pytest.mark.usefixtures("in_tmp_path")

RIGHT = [1.0, 2.0, 3.0, 4.0]


def spec(**more: Any) -> dict[str, Any]:
    return {
        "name": "y", "dtype": "f32", "shape": [4], "compare": "numeric", "atol": 0.1, "rtol": 0.0, "atol_text": "0.1",
        "rtol_text": "0", "layer": "golden/t.yaml:3:5", "rationale": "none",
    } | more  # fmt: skip


def report(
    kind: str,
    actual: Sequence[Any],
    *,
    bound: float = 0.01,
    expected: Sequence[Any] = (),
    failures: Mapping[str, str] | None = None,
    output: Mapping[str, Any] | None = None,
    files: Mapping[str, str] | None = None,
    **params: Any,
) -> list[dict[str, Any]]:
    """The plants of an audit; ``actual`` has the output of each draw."""
    described = spec(**(output or {}))
    files = {"failures": "failures.json", **(files or {})}
    Path("failures.json").write_text(json.dumps(failures or {}))
    for draw, values in enumerate(actual):
        right = np.asarray(expected[draw] if expected else RIGHT, dtype=dtypes.golden_storage(described["dtype"]))
        arrays = {
            "actual": np.asarray(values, dtype=dtypes.STORAGE[described["dtype"]]),
            "expected": right,
            "bound": np.full(right.shape, bound),
        }
        for name, array in arrays.items():
            files[f"{name}-{draw}-y"] = f"{name}-{draw}.npy"
            dtypes.save_npy(f"{name}-{draw}.npy", array)
        files[f"arg-{draw}-x"] = f"actual-{draw}.npy"
    told = {"outputs": [described], "draws": list(range(len(actual))), "kind": kind, **params}
    audit.run(Action(params=told, inputs=files, outputs={"report": "report.json"}))
    plants: list[dict[str, Any]] = json.loads(Path("report.json").read_text())["mutants"]
    return plants


def test_mistakes_between_the_bound_and_the_tolerance_are_missed() -> None:
    plants = report("mutant", [[1.0, 2.0, 3.0, 4.0], [1.005, 2, 3, 4], [1, 2, 3.05, 4], [1, 2, 3, 4.2]])
    assert [plant["matters"] for plant in plants] == [False, False, True, True]
    assert [plant.get("caught") for plant in plants] == [None, None, False, True]
    missed = plants[2]
    assert (missed["output"], missed["index"], missed["layer"]) == ("y", [2], "golden/t.yaml:3:5")
    assert missed["error"] == pytest.approx(0.05, rel=1e-5)
    assert (missed["bound"], missed["atol"], missed["rtol"]) == (0.01, "0.1", "0")


def test_what_a_layer_derives_for_each_element_decides() -> None:
    dtypes.save_npy("own.npy", np.full(4, 0.02))
    plants = report("mutant", [[1, 2, 3.05, 4]], files={"own-0-y": "own.npy"})
    assert (plants[0]["matters"], plants[0]["caught"]) == (True, True)


def test_a_call_that_failed_is_caught() -> None:
    plants = report("mutant", [RIGHT, RIGHT], failures={"1": "crashed: SIGSEGV"})
    assert plants[1] == {"draw": 1, "matters": True, "caught": True, "failed": "crashed: SIGSEGV", "layer": ""}


def test_what_is_allowed_is_judged_whatever_it_is() -> None:
    fine, wrong = report("allowed", [[1.001, 2, 3, 4], [1.2, 2, 3, 4]])
    assert (fine["matters"], fine["caught"]) == (False, False)
    assert fine["used"] == [["golden/t.yaml:3:5", pytest.approx(0.01, rel=1e-3)]]
    assert wrong["caught"]
    assert "1 of 4 elements" in wrong["reason"]


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_what_is_no_number_matters_whatever_the_bound(value: float) -> None:
    (plant,) = report("mutant", [[value, 2, 3, 4]], bound=float("inf"))
    assert (plant["matters"], plant["caught"]) == (True, True)


def test_an_infinity_that_is_expected_does_not() -> None:
    (plant,) = report("mutant", [[np.inf, 2, 3, 4]], expected=[[np.inf, 2, 3, 4]])
    assert not plant["matters"]


def test_any_other_integer_matters() -> None:
    output = {"dtype": "i32", "compare": "exact", "atol": 0.0}
    (plant,) = report("mutant", [[1, 2, 3, 5]], output=output)
    assert (plant["matters"], plant["caught"]) == (True, True)


def test_order_does_not_matter_where_it_is_free() -> None:
    (plant,) = report("mutant", [[4, 3, 2, 1]], output={"compare": "order-free"})
    assert not plant["matters"]
    (plant,) = report("mutant", [[4, 3, 2, 1.05]], output={"compare": "order-free"})
    assert plant["matters"]
    assert plant["index"] == [0]


def test_outputs_are_mutated_here() -> None:
    plants = report("outputs", [RIGHT, [1.0, 2, 3, 4]], mutations=["output-flip-bit-0", "output-zeroed-tail"])
    tails = [plant for plant in plants if plant["mutation"] == "output-zeroed-tail"]
    assert [(plant["where"], plant["matters"], plant["caught"]) for plant in tails] == [("axis 0", True, True)] * 2
    flips = [plant for plant in plants if plant["mutation"] == "output-flip-bit-0"]
    assert len(flips) >= 2
    assert not any(plant["matters"] for plant in flips)
    assert not Path("mutant.npy").exists()


def test_a_mutant_that_is_the_output_is_not_planted() -> None:
    assert (
        report("outputs", [[0.0, 0, 0, 0]], expected=[[0.0] * 4], mutations=["output-shifted", "output-zeroed-tail"])
        == []
    )


def test_not_even_where_the_output_is_off_already() -> None:
    same = [1.001] * 4
    assert (
        report("outputs", [same, same], expected=[[1.0] * 4] * 2, mutations=["output-shifted", "output-stale-tail"])
        == []
    )


def test_trivial_outputs_that_pass_are_named() -> None:
    arguments = ["x"]
    loose = {"atol": 5.0}
    plants = report("trivial", [RIGHT, RIGHT], expected=[RIGHT, [9.0, 9, 9, 9.5]], arguments=arguments, output=loose)
    found = {(plant["draw"], plant["output"]) for plant in plants}
    assert found == {
        (0, "all zeros"), (0, "all ones"), (0, "the mean everywhere"), (0, "the input x"), (1, "the mean everywhere"),
    }  # fmt: skip
    strict = report("trivial", [[9.0] * 4], arguments=arguments)
    assert strict == []


def of_program(
    kind: str, actual: Sequence[float], sound: Sequence[float] = RIGHT, bound: float = 0.001
) -> list[dict[str, Any]]:
    """The same of a program whose own code says what it gives; elements may be off by ``bound``, and 0.1 is what the layer says."""
    arrays = {"expected-y": np.array(RIGHT), "bound-y": np.full(4, bound)}
    arrays |= {name: np.array(values, np.float32) for name, values in {"actual": actual, "sound": sound}.items()}
    for name, array in arrays.items():
        np.save(f"{name}.npy", array)
    Path("about.json").write_text(json.dumps({"y": {"rationale": "derived: by hand"}}))
    Path("interface.json").write_text(json.dumps({"outputs": [{"name": "y", "dtype": "f32", "shape": [4]}]}))
    prepared.pack(
        "expected.zip", {"expected-y": "expected-y.npy", "bound-y": "bound-y.npy", "about.json": "about.json"}
    )
    prepared.pack("results.zip", {"y": "actual.npy"})
    prepared.pack("sound.zip", {"y": "sound.npy"})
    bounds = {
        "f32": {
            key: each for key, each in spec(derived=True).items() if key not in ("name", "dtype", "shape", "compare")
        }
    }
    files = {"interface-0": "interface.json", "expected-0": "expected.zip"}
    files |= {"results-0": "results.zip", "sound-0": "sound.zip"} if kind != "trivial" else {}
    params = {
        "outputs": [],
        "bounds": bounds,
        "draws": [0],
        "kind": kind,
        "arguments": [],
        "mutations": ["output-scaled"],
    }
    audit.run(Action(params=params, inputs=files, outputs={"report": "report.json"}))
    plants: list[dict[str, Any]] = json.loads(Path("report.json").read_text())["mutants"]
    return plants


def test_mutants_of_a_program_matter_beyond_the_layer_and_are_caught_by_the_bound_of_each_element() -> None:
    (plant,) = of_program("mutant", [1, 2, 3, 4.2])
    assert (plant["matters"], plant["caught"], plant["layer"]) == (True, True, "golden/t.yaml:3:5, derived")
    (small,) = of_program("mutant", [1, 2, 3, 4.05])
    assert not small["matters"]
    (already,) = of_program("mutant", [1, 2, 3, 4.2], sound=[1, 2, 3, 4.15])
    assert not already["matters"], "the program as it is is off by more than the layer says"


def test_a_program_as_it_is_is_judged_by_its_own_bound() -> None:
    (plant,) = of_program("allowed", [1, 2, 3, 4.0005])
    assert (plant["matters"], plant["caught"]) == (False, False)
    ((layer, used),) = plant["used"]
    assert (layer, used) == ("golden/t.yaml:3:5, derived", pytest.approx(0.5, rel=1e-3))


def test_an_overflow_matters_only_where_the_program_does_not_overflow() -> None:
    over = [1, 2, 3, np.inf]
    (plant,) = of_program("allowed", over, bound=-0.001)
    assert (plant["matters"], plant["caught"]) == (False, False)
    (plant,) = of_program("mutant", over, sound=over, bound=-0.001)
    assert not plant["matters"]
    (plant,) = of_program("mutant", [1, 2, 3, 4.2], bound=-0.001)
    assert (plant["matters"], plant["caught"]) == (True, True)
    for kind in ("allowed", "mutant"):
        (plant,) = of_program(kind, over)
        assert (plant["matters"], plant["caught"]) == (True, True)
