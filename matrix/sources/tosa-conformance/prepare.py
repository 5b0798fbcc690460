"""Prepare a conformance test of TOSA, which the generator of Arm's tools makes by its name.

A test is a flatbuffer, inputs, and the mode by which outputs are compared with those of the reference model in double. Modes and
bounds are those of TOSA's specification; of a dot product only the bound of each element, not the statistics of all. In each mode
that is read here, Arm's verifier takes an element 0.2 % inside of the bound and refuses one 0.2 % outside.
"""

from __future__ import annotations

import contextlib
import io
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy
import tosa_reference_model
from generator import tosa_utils, tosa_verif_build_tests
from generator.tosa_test_gen import TosaTestGen
from generator.tosa_test_select import TosaTestSelect

from mlir_matrix.actions import api
from mlir_matrix.actions.api import Action, ActionFailed, Expected

Array = numpy.ndarray[Any, Any]

MODEL = Path(tosa_reference_model.__file__).parent
#: The generator makes dot products only for at least 1,000 outputs, hence the sizes.
OPTIONS = [
    "-o", "tests", "--seed", "42", f"--generate-lib-path={MODEL / 'libtosa_reference_generate_lib.so'}", "--no-special-tests",
    "--tensor-dim-range", "12,20", "--fp-values-range", "-2.0,2.0", "--num-rand-permutations", "1",
    "--max-conv-padding", "0", "--max-conv-stride", "1", "--max-conv-dilation", "1", "--conv-kernel", "2,3", "2,1,3",
    "--max-pooling-padding", "0", "--max-pooling-stride", "1", "--max-pooling-kernel", "2", "--max-resize-output-dim", "40",
]  # fmt: skip
#: The ranks in which tests are made: the lowest three of an operator, none with fewer than two axes if there is a choice.
LEAST_RANK, RANKS = 2, 3
#: The dtypes of operands of the members, by the generator's names; one test each, of each operator.
TYPES = {"f32", "f16", "i8", "i32", "b"}
#: Parts of names: dtypes that kernels do not take, and the rounding of a rescale that the specification leaves open.
OTHER = re.compile(r"(?<=[_x])(out|acc|idx)?(i4|i48|i64|f8\w*|bs32\S*)(?=_|$)|_rmI_")
#: By TOSA's name: our dtype, and how its elements are stored.
DTYPES: dict[str, tuple[str, Any]] = {
    "FP32": ("f32", numpy.float32), "FP16": ("f16", numpy.float16), "BF16": ("bf16", ml_dtypes.bfloat16),
    "BOOL": ("bool", numpy.bool_), "INT8": ("i8", numpy.int8), "INT16": ("i16", numpy.int16), "INT32": ("i32", numpy.int32),
    "INT64": ("i64", numpy.int64),
}  # fmt: skip
FLOATS = {"f32", "f16", "bf16"}
#: The modes whose bounds are made of magnitudes, which the reference model writes beside the output.
OF_MAGNITUDES = {"DOT_PRODUCT", "ABS_ERROR", "PRECOMPUTED"}


def members(action: Action) -> None:
    """Write the names of the tests, one a line."""
    generator, names = _generator(), []
    for operator in generator.TOSA_OP_LIST:
        names += _chosen(list(_tests(generator, operator)))
    Path(action.outputs["members"]).write_text("".join(f"{name}\n" for name in sorted(names)), encoding="utf-8")


def run(action: Action) -> None:
    """Write the program, its interface, its arguments and what is expected."""
    folder = _make(str(action.params["member"]))
    desc = json.loads((folder / "desc.json").read_text(encoding="utf-8"))
    _run_model(folder, desc)
    tensors = desc.get("meta", {}).get("compliance", {}).get("tensors", {})
    arguments = [_argument(at, folder / file) for at, file in enumerate(desc["ifm_file"])]
    expected = [
        _expected(at, tensors.get(name, {}), folder / file)
        for at, (name, file) in enumerate(zip(desc["ofm_name"], desc["ofm_file"], strict=True))
    ]
    api.write_prepared(action, _program(folder / desc["tosa_file"]), arguments, expected)


def _generator() -> Any:
    options = tosa_verif_build_tests.parseArgs(OPTIONS)
    return TosaTestGen(options, tosa_verif_build_tests._get_tosa_version(options.tosa_version_str))


def _tests(generator: Any, operator: str) -> Iterator[TosaTestSelect]:
    """Yield the tests of an operator that kernels can take, with few axes first; the same ones at each call."""
    least, most = generator.TOSA_OP_LIST[operator]["rank"]
    ranks = list(range(max(least, min(LEAST_RANK, most)), most + 1))[:RANKS]
    if operator.endswith("_shape") or "block_scaled" in operator:
        return
    for each in generator.genOpTestList(operator, shapeFilter=[], rankFilter=ranks):
        test = TosaTestSelect(each)
        types = set(tosa_utils.dtypeStr(test.dtype).split("x"))
        if types <= TYPES and not OTHER.search(str(test)):
            yield test


def _chosen(tests: list[TosaTestSelect]) -> list[str]:
    """Return a name for each combination of dtypes: of the lowest rank, and the last, as the first often changes nothing."""
    found: dict[str, tuple[int, str]] = {}
    for test in tests:
        types, rank = tosa_utils.dtypeStr(test.dtype), len(test.shapeList[0])
        if types not in found or rank <= found[types][0]:
            found[types] = rank, str(test)
    return [name for _, name in found.values()]


def _make(name: str) -> Path:
    """Let the generator make a test, and return its folder."""
    generator = _generator()
    printed = io.StringIO()
    for operator in generator.TOSA_OP_LIST:
        if not name.startswith(generator.getOperatorNameStr(operator)):
            continue
        test = next((each for each in _tests(generator, operator) if str(each) == name), None)
        if test is None:
            continue
        with contextlib.redirect_stdout(printed):
            made = generator.serializeTest(test)
        if made is False:
            raise ActionFailed(f"the generator cannot make {name}", diagnostics=printed.getvalue())
        return Path("tests", test.opName, name)
    raise ActionFailed(f"the generator of TOSA's tests has none of the name {name}")


def _run_model(folder: Path, desc: dict[str, Any]) -> None:
    """Let the reference model compute in double what is expected, and the magnitudes of which some bounds are made."""
    printed = api.run_program(
        "tosa_reference_model",
        [
            f"--test_desc={folder / 'desc.json'}",
            f"--operator_fbs={MODEL.parent / 'bin/tosa.fbs'}",
            "--precise_mode=1",
        ],
    )
    missing = [file for file in desc["ofm_file"] if not (folder / file).is_file()]
    if missing:
        raise ActionFailed("the reference model gives no output", diagnostics=printed)


def _program(flatbuffer: Path) -> str:
    """Return a flatbuffer as MLIR."""
    Path("empty.mlir").write_text("module {}\n", encoding="utf-8")
    given = f"--tosa-deserialize=tosa-flatbuffer-filename={flatbuffer}"
    api.run_program("tosa-opt", [given, "empty.mlir", "-o", "program.mlir"])
    text = Path("program.mlir").read_text(encoding="utf-8")
    if "func.func @main" not in text:
        raise ActionFailed("tosa-opt makes no function @main of the test's flatbuffer")
    return text


def _argument(at: int, file: Path) -> tuple[dict[str, Any], str]:
    array = numpy.load(file)
    dtype = next((dtype for dtype, stored in DTYPES.values() if array.dtype == stored), None)
    if array.dtype.str == "|V2":
        dtype, array = "bf16", array.view(numpy.uint16)
    if dtype is None:
        raise ActionFailed(f"an input is stored as {array.dtype}, which is no dtype here")
    declared = {"name": f"x{at}", "shape": list(array.shape), "dtype": dtype, "dynamic": []}
    return declared, _save(f"argument-{at}.npy", array)


def _expected(at: int, how: dict[str, Any], file: Path) -> Expected:
    """Write what is expected, and the bound of each element by the test's mode."""
    array = numpy.load(file)
    stored = next((name for name, (_, kind) in DTYPES.items() if array.dtype == kind), None)
    name = how.get("data_type", stored)
    if name not in DTYPES:
        raise ActionFailed(f"an output has TOSA's type {name}, which is no dtype here")
    dtype, kind = DTYPES[name]
    declared = {"name": f"y{at}", "shape": list(array.shape), "dtype": dtype}
    if dtype not in FLOATS:
        return Expected(declared=declared, file=_save(f"expected-{at}.npy", array.astype(kind)))
    exact = array.astype(numpy.float64)
    sizes = numpy.zeros_like(exact)
    if how.get("mode") in OF_MAGNITUDES:
        magnitudes = file.with_name(f"bounds_{file.name}")
        if not magnitudes.is_file():
            raise ActionFailed(f"the reference model writes no {magnitudes.name}, of which the bound is made")
        sizes = numpy.load(magnitudes).astype(numpy.float64)
    words, allowed = bound(how, exact, sizes, kind)
    return Expected(
        declared=declared,
        file=_save(f"expected-{at}.npy", exact),
        bound=_save(f"bound-{at}.npy", numpy.broadcast_to(allowed, exact.shape)),
        rationale=f"given by the test: {words}",
    )


def bound(how: dict[str, Any], exact: Array, sizes: Array, kind: Any) -> tuple[str, Array]:
    """Return the mode of a test in words, and how far each element may be from the exact one."""
    form = ml_dtypes.finfo(kind)
    digits = 2.0**-form.nmant
    least = numpy.maximum(numpy.abs(exact), float(form.smallest_normal))
    match how.get("mode"):
        case "EXACT":
            return "equal", numpy.zeros_like(exact)
        case "ULP":
            ulps = float(how["ulp_info"]["ulp"])
            return f"{ulps:g} units in the last place", ulps * digits * 2.0 ** numpy.floor(numpy.log2(least))
        case "DOT_PRODUCT":
            count = float(how["dot_product_info"]["abs_bound"])
            return f"a dot product, {count:g} roundings of the sum of magnitudes", count * sizes * digits / 2
        case "REDUCE_PRODUCT":
            count = int(how["reduce_product_info"]["n"])
            return f"a product of {count} factors", least * ((1 + digits / 2) ** count - 1)
        case "ABS_ERROR":
            return "the error of the operator by the specification", _absolute(
                how.get("abs_error_info", {}), exact, sizes, digits
            )
        case "PRECOMPUTED":
            return "the error of the operator by the specification", sizes
        case mode:
            raise ActionFailed(f"the test's outputs are compared in mode {mode}, of which no bound is known")


def _absolute(how: dict[str, Any], exact: Array, sizes: Array, digits: float) -> Array:
    """Return the bound of ABS_ERROR: the model's number times the unit of 1, relative but for trigonometric functions."""
    base = float(how.get("base_bound", 0))
    if how.get("bound_as_magnitude"):
        unit: float = digits ** (1 / how["normal_divisor"])
        return base * unit * numpy.abs(sizes)
    return numpy.maximum(numpy.abs(exact) * (sizes + base), float(how.get("lower_bound", 0))) * digits


def _save(path: str, array: Array) -> str:
    # Not ascontiguousarray, which makes a vector of a scalar.
    numpy.save(path, numpy.array(array, order="C"))
    return path
