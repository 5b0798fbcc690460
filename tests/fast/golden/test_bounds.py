"""The repository's own bounds: single precision fits in with room to spare, and what a broken compiler does fails."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from mlir_matrix.actions.numerics import dtypes
from mlir_matrix.actions.tools import judge
from mlir_matrix.catalog.catalog import Catalog
from mlir_matrix.catalog.load import load
from mlir_matrix.expand.checks.validate import validate
from mlir_matrix.expand.tolerances import ranking
from support import inputs

ROOT = Path(__file__).parents[3]
Arrays = list[Any]


@cache
def catalog() -> Catalog:
    return validate(load([ROOT]))


@cache
def arguments(workload: str) -> tuple[Any, ...]:
    """The inputs as a reference gets them."""
    return tuple(inputs.decoded(catalog().workloads[workload].document))


def sizes(shape: Sequence[int | str], workload: str) -> list[int]:
    dims = catalog().workloads[workload].document.dims
    return [size if isinstance(size, int) else dims[size] for size in shape]


def reference(workload: str, given: Sequence[Any]) -> list[Any]:
    module = ModuleType("reference")
    path = catalog().workloads[workload].reference
    exec(compile(path.read_text(encoding="utf-8"), str(path), "exec"), module.__dict__)
    returned = module.__dict__["reference"](*given)
    return list(returned) if isinstance(returned, tuple) else [returned]


@cache
def golden(workload: str) -> tuple[Any, ...]:
    return tuple(reference(workload, arguments(workload)))


def verdict(
    workload: str, results: Sequence[Any], folder: Path, *, truth: Sequence[Any] | None = None
) -> dict[str, Any]:
    """Judge results (rounded to the outputs' dtypes) against the golden, with the layers that apply on this route."""
    document = catalog().workloads[workload].document
    specs: list[dict[str, Any]] = []
    files: dict[str, str] = {}
    for (name, output), result, expected in zip(
        document.outputs.items(), results, truth or golden(workload), strict=True
    ):
        query = (workload, name, output.dtype, "x86_64", (), "linalg-loops", "pytorch")
        bounds = ranking(catalog().layers).resolve(query, document.dims, output.dtype)
        specs.append(
            {
                "name": name,
                "dtype": output.dtype,
                "shape": sizes(output.shape, workload),
                "compare": output.compare,
                "atol": bounds.atol,
                "rtol": bounds.rtol,
                "layer": bounds.location,
            }
        )
        files |= {f"actual-{name}": str(folder / f"a-{name}"), f"expected-{name}": str(folder / f"e-{name}")}
        stored = dtypes.encode(np.asarray(result, dtype=np.float64), output.dtype)
        dtypes.save_npy(files[f"actual-{name}"], stored)
        dtypes.save_npy(files[f"expected-{name}"], np.asarray(expected))
    return judge.judge(specs, files)


def workloads() -> list[str]:
    return sorted(path.name for path in (ROOT / "matrix" / "workloads").iterdir() if (path / "workload.yaml").is_file())


def in_single() -> list[str]:
    """Workloads that a program in single precision may compute."""
    documents = {name: catalog().workloads[name].document for name in workloads()}
    return [name for name, each in documents.items() if all(output.dtype != "f64" for output in each.outputs.values())]


@pytest.mark.parametrize("workload", in_single())
def test_single_precision_fits_with_room_to_spare(workload: str, tmp_path: Path) -> None:
    single = [array.astype(np.float32) if array.dtype == np.float64 else array for array in arguments(workload)]
    found = verdict(workload, reference(workload, single), tmp_path)
    assert found["outcome"] == "pass", found["reason"]
    # Two correctly rounded operations may use all of a bound that is what they can come to.
    assert float(found["metrics"]["error_used"]) <= (1.0 if workload == "rsqrt" else 0.5)


@pytest.mark.parametrize("workload", workloads())
def test_a_flipped_sign_is_one_wrong_element(workload: str, tmp_path: Path) -> None:
    truth = [array.copy() for array in golden(workload)]
    sizes_of = np.abs(truth[0].astype(np.float64))
    # A byte has no 128.
    place = np.unravel_index(int(np.argmax(np.where(sizes_of == 128, 0, sizes_of))), truth[0].shape)
    truth[0][place] = np.negative(truth[0][place])
    found = verdict(workload, golden(workload), tmp_path, truth=truth)
    assert found["outcome"] == "mismatch"
    if catalog().workloads[workload].document.outputs[found["outputs"][0]["name"]].compare != "order-free":
        assert found["outputs"][0]["wrong"] == 1
        assert found["outputs"][0]["worst"][0]["index"] == [int(index) for index in place]


def zeroed(argument: int, *place: Any) -> Callable[[Arrays], None]:
    def change(given: Arrays) -> None:
        given[argument] = given[argument].copy()
        given[argument][place] = 0

    return change


#: What a compiler that leaves out the last iteration of a reduction would compute: an operand that is 0 there.
DROPPED: dict[str, Callable[[Arrays], None]] = {
    "matmul": zeroed(1, -1),
    "batch_matmul": zeroed(1, slice(None), -1),
    "matmul_bf16": zeroed(1, -1),
    "matmul_i8": zeroed(1, -1),
    "mlp": zeroed(1, -1),
    "mlp_dynamic": zeroed(3, -1),
    "conv2d": zeroed(1, ..., -1, -1, -1),
    "depthwise_conv2d": zeroed(1, ..., -1, -1),
    "resnet_block": zeroed(4, ..., -1, -1, -1),
    "avg_pool": zeroed(0, ..., 2, 2),
    "cumsum": zeroed(0, ..., -1),
    "reduce_sum": zeroed(0, ..., -1),
    "scatter_add": zeroed(2, -1),
    "layernorm": zeroed(0, ..., -1),
    "softmax": zeroed(0, ..., -1),
    "attention": zeroed(2, ..., -1, slice(None)),
    "transformer_block": zeroed(11, -1),
}


@pytest.mark.parametrize("workload", DROPPED)
def test_a_lost_iteration_is_a_mismatch(workload: str, tmp_path: Path) -> None:
    given = list(arguments(workload))
    DROPPED[workload](given)
    assert verdict(workload, reference(workload, given), tmp_path)["outcome"] == "mismatch"


def partial_sums(x: Any, w: Any) -> Iterator[Any]:
    yield np.zeros((x.shape[0], w.shape[1]))
    for k in range(x.shape[1]):
        yield np.multiply.outer(x[:, k], w[k])


def test_accumulating_in_bf16_is_a_mismatch(tmp_path: Path) -> None:
    total: Any = 0.0
    for term in partial_sums(*arguments("matmul_bf16")):
        total = dtypes.decode(dtypes.encode(total + term, "bf16"), "bf16")
    assert verdict("matmul_bf16", [total], tmp_path)["outcome"] == "mismatch"


def test_any_order_of_summation_passes(tmp_path: Path) -> None:
    x, w = (array.astype(np.float32) for array in arguments("matmul"))
    for order in (range(x.shape[1]), reversed(range(x.shape[1])), np.argsort(np.abs(w).max(axis=1))[::-1]):
        total = np.zeros((x.shape[0], w.shape[1]), dtype=np.float32)
        for k in order:
            total += np.multiply.outer(x[:, k], w[k])
        found = verdict("matmul", [total], tmp_path)
        assert found["outcome"] == "pass"
    (row,) = (array.astype(np.float32) for array in arguments("reduce_sum"))
    assert verdict("reduce_sum", [np.cumsum(row, axis=-1, dtype=np.float32)[:, -1]], tmp_path)["outcome"] == "pass"


def test_the_two_forms_of_gelu_are_told_apart(tmp_path: Path) -> None:
    assert verdict("gelu", golden("gelu_tanh"), tmp_path)["outcome"] == "mismatch"
    assert verdict("gelu_tanh", golden("gelu"), tmp_path)["outcome"] == "mismatch"


def test_half_precision_in_place_of_single_is_a_mismatch(tmp_path: Path) -> None:
    for workload in ("matmul", "conv2d", "softmax", "layernorm", "attention", "mlp", "gelu", "avg_pool"):
        rounded = [dtypes.decode(dtypes.encode(array, "f16"), "f16") for array in golden(workload)]
        assert verdict(workload, rounded, tmp_path)["outcome"] == "mismatch", workload
