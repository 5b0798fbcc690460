"""References of modules: what MLIR says of each form, on plain arrays and with error bounds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mlir_matrix.actions.contract import ActionFailed
from mlir_matrix.actions.tools.forward_error import bounded_reference
from mlir_matrix.reduction.numpy_terms import Untranslatable
from mlir_matrix.reduction.numpy_text import numpy_text
from mlir_matrix.reduction.tree import parse

NAMES = {"f64": "f64", "f32": "f32", "f16": "f16", "bf16": "bf16", "i8": "i8", "i32": "i32", "i64": "i64", "i1": "bool"}


def module(arguments: str, body: str, results: str) -> str:
    """A module whose function takes ``%a: TYPE, %b: TYPE`` and returns ``%r: TYPE``."""
    return_types = [each.split(":")[1].strip() for each in results.split(",")]
    names = ", ".join(each.split(":")[0].strip() for each in results.split(","))
    types = ", ".join(return_types)
    return (
        f'"builtin.module"() ({{\n"func.func"() <{{function_type = () -> (), sym_name = "main"}}> ({{\n^bb0({arguments}):\n'
        f'{body}\n"func.return"({names}) : ({types}) -> ()\n}}) : () -> ()\n}}) : () -> ()\n'
    )


def run(tmp_path: Path, text: str, *arrays: Any) -> list[tuple[Any, Any]]:
    """Return what the reference gives, with its bound, for each result; both runs of the reference agree."""
    tree = parse(text)
    block = tree.operation.regions[0][0].operations[0].regions[0][0]
    names = "xyzw"[: len(arrays)]
    for value, name in zip(block.arguments, names, strict=True):
        value.input = name
    path = tmp_path / "reference.py"
    path.write_text(numpy_text(tree), encoding="utf-8")
    specs: Any = []
    for number, value in enumerate(block.operations[-1].operands):
        *sizes, element = value.type.removeprefix("tensor<").removesuffix(">").split("x")
        specs.append({"name": f"r{number}", "dtype": NAMES[element], "shape": [int(size) for size in sizes]})
    inputs: Any = [{"name": name} for name in names]
    given = [np.asarray(array) for array in arrays]
    expected, bounds = bounded_reference(str(path), given, specs, inputs)
    return list(zip(expected, bounds, strict=True))


def generic(maps: str, operands: str, types: str, result: str, body: str, outs: int = 1) -> str:
    count = operands.count("%") - outs
    texts = ", ".join(f"affine_map<{each}>" for each in maps.split("; "))
    return (
        f'%r = "linalg.generic"({operands}) <{{indexing_maps = [{texts}], operandSegmentSizes = array<i32: {count}, {outs}>}}> '
        f"({{\n{body}\n}}) : ({types}) -> {result}"
    )


X = np.random.default_rng(7).normal(0, 1, (4, 6)).astype(np.float32).astype(np.float64)
Y = np.random.default_rng(8).normal(0, 1, (6, 5)).astype(np.float32).astype(np.float64)
SUM = '"linalg.yield"(%s) : (f32) -> ()'


def test_a_program_reads_as_numpy() -> None:
    body = """
      %c = "arith.constant"() <{value = 1.000000e-01 : f32}> : () -> f32
      %z = "arith.constant"() <{value = 0.000000e+00 : f32}> : () -> f32
      %e = "tensor.empty"() : () -> tensor<4x5xf32>
      %f = "linalg.fill"(%z, %e) <{operandSegmentSizes = array<i32: 1, 1>}> ({
      ^bb0(%i: f32, %o: f32):
        "linalg.yield"(%i) : (f32) -> ()
      }) : (f32, tensor<4x5xf32>) -> tensor<4x5xf32>
      %m = "linalg.matmul"(%a, %b, %f) <{operandSegmentSizes = array<i32: 2, 1>}> ({
      ^bb0(%i: f32, %j: f32, %o: f32):
        %p = "arith.mulf"(%i, %j) : (f32, f32) -> f32
        %s = "arith.addf"(%o, %p) : (f32, f32) -> f32
        "linalg.yield"(%s) : (f32) -> ()
      }) : (tensor<4x6xf32>, tensor<6x5xf32>, tensor<4x5xf32>) -> tensor<4x5xf32>
    """ + generic(
        "(d0, d1) -> (d1, d0); (d0, d1) -> (d0, d1)",
        "%m, %g",
        "tensor<4x5xf32>, tensor<5x4xf32>",
        "tensor<5x4xf32>",
        '^bb0(%i: f32, %o: f32):\n%p = "arith.mulf"(%i, %c) : (f32, f32) -> f32\n%s = "math.exp"(%p) : (f32) -> f32\n'
        + SUM,
    )
    body = body.replace("%r =", '%g = "tensor.empty"() : () -> tensor<5x4xf32>\n%r =')
    text = numpy_text(parse(module("%a: tensor<4x6xf32>, %b: tensor<6x5xf32>", body, "%r: tensor<5x4xf32>")))
    assert text.endswith(
        "import numpy as np\n\n\ndef reference(arg0, arg1):\n"
        "    t1 = arg0 @ arg1\n"
        "    t2 = t1.transpose(1, 0) * 0.10000000149011612\n"
        "    t3 = np.exp(t2)\n"
        "    return t3\n"
    )


def test_windows_and_strides_of_a_convolution(tmp_path: Path) -> None:
    image, kernel = np.arange(50.0).reshape(1, 2, 5, 5), np.arange(24.0).reshape(3, 2, 2, 2)
    body = """
      %z = "arith.constant"() <{value = dense<1.000000e+00> : tensor<1x3x2x3xf32>}> : () -> tensor<1x3x2x3xf32>
      %r = "linalg.conv_2d_nchw_fchw"(%a, %b, %z)
        <{dilations = dense<[1, 2]> : tensor<2xi64>, strides = dense<[2, 1]> : tensor<2xi64>}> ({
      ^bb0(%i: f32, %j: f32, %o: f32):
        %p = "arith.mulf"(%i, %j) : (f32, f32) -> f32
        %s = "arith.addf"(%o, %p) : (f32, f32) -> f32
        "linalg.yield"(%s) : (f32) -> ()
      }) : (tensor<1x2x5x5xf32>, tensor<3x2x2x2xf32>, tensor<1x3x2x3xf32>) -> tensor<1x3x2x3xf32>
    """
    text = module("%a: tensor<1x2x5x5xf32>, %b: tensor<3x2x2x2xf32>", body, "%r: tensor<1x3x2x3xf32>")
    ((found, bound),) = run(tmp_path, text, image, kernel)
    right = np.ones((1, 3, 2, 3))
    for f, h, w, c, y, x in np.ndindex(3, 2, 3, 2, 2, 2):
        right[0, f, h, w] += image[0, c, 2 * h + y, w + 2 * x] * kernel[f, c, y, x]
    np.testing.assert_array_equal(found, right)
    assert 0 < bound.max() < 1e-2


def test_a_reduction_that_numpy_has_no_name_for(tmp_path: Path) -> None:
    """Two results: the largest number and its place, by comparisons."""
    body = """
      %m = "arith.constant"() <{value = dense<0xFF800000> : tensor<4xf32>}> : () -> tensor<4xf32>
      %n = "arith.constant"() <{value = dense<0> : tensor<4xi32>}> : () -> tensor<4xi32>
    """ + generic(
        "(d0, d1) -> (d0, d1); (d0, d1) -> (d0); (d0, d1) -> (d0)",
        "%a, %m, %n",
        "tensor<4x6xf32>, tensor<4xf32>, tensor<4xi32>",
        "(tensor<4xf32>, tensor<4xi32>)",
        """^bb0(%i: f32, %o: f32, %p: i32):
        %d = "linalg.index"() <{dim = 1 : i64}> : () -> index
        %e = "arith.index_cast"(%d) : (index) -> i32
        %g = "arith.cmpf"(%i, %o) <{predicate = 2 : i64}> : (f32, f32) -> i1
        %s = "arith.select"(%g, %i, %o) : (i1, f32, f32) -> f32
        %t = "arith.select"(%g, %e, %p) : (i1, i32, i32) -> i32
        "linalg.yield"(%s, %t) : (f32, i32) -> ()""",
        outs=2,
    ).replace("%r =", "%r:2 =")
    text = module("%a: tensor<4x6xf32>", body, "%r#0: tensor<4xf32>, %r#1: tensor<4xi32>")
    (largest, bound), (place, exact) = run(tmp_path, text, X)
    np.testing.assert_array_equal(largest, X.max(axis=1))
    np.testing.assert_array_equal(place, X.argmax(axis=1))
    assert not bound.any()
    assert not exact.any()


def test_a_body_that_reduces_nothing_gives_its_last_element(tmp_path: Path) -> None:
    """Reductions make such bodies: an addition is erased, and one operand is left."""
    body = '%e = "tensor.empty"() : () -> tensor<4xf32>\n' + generic(
        "(d0, d1) -> (d0, d1); (d0, d1) -> (d0)",
        "%a, %e",
        "tensor<4x6xf32>, tensor<4xf32>",
        "tensor<4xf32>",
        "^bb0(%s: f32, %o: f32):\n" + SUM,
    )
    ((found, _),) = run(tmp_path, module("%a: tensor<4x6xf32>", body, "%r: tensor<4xf32>"), X)
    np.testing.assert_array_equal(found, X[:, -1])


def test_integers_wrap_and_one_bit_counts_as_minus_one(tmp_path: Path) -> None:
    body = """
      %c = "arith.constant"() <{value = 100 : i8}> : () -> i8
      %e = "tensor.empty"() : () -> tensor<3xi32>
    """ + generic(
        "(d0) -> (d0); (d0) -> (d0)",
        "%a, %e",
        "tensor<3xi8>, tensor<3xi32>",
        "tensor<3xi32>",
        """^bb0(%i: i8, %o: i32):
        %p = "arith.addi"(%i, %c) : (i8, i8) -> i8
        %q = "arith.divui"(%p, %c) : (i8, i8) -> i8
        %u = "arith.extsi"(%p) : (i8) -> i32
        %v = "arith.extui"(%q) : (i8) -> i32
        %w = "arith.cmpi"(%p, %c) <{predicate = 8 : i64}> : (i8, i8) -> i1
        %x = "arith.extsi"(%w) : (i1) -> i32
        %y = "arith.muli"(%v, %u) : (i32, i32) -> i32
        %s = "arith.addi"(%x, %y) : (i32, i32) -> i32
        "linalg.yield"(%s) : (i32) -> ()""",
    )
    ((found, _),) = run(
        tmp_path, module("%a: tensor<3xi8>", body, "%r: tensor<3xi32>"), np.array([1, 100, -100], np.int8)
    )
    # 101; 200, which is -56 as a signed number; 0
    np.testing.assert_array_equal(found, [1 * 101 - 1, 2 * -56 - 1, 0])


@pytest.mark.parametrize(("element", "digits"), [("bf16", 8), ("f16", 11)])
def test_narrow_numbers_inside_are_rounded(tmp_path: Path, element: str, digits: int) -> None:
    body = '%e = "tensor.empty"() : () -> tensor<4x6xf32>\n' + generic(
        "(d0, d1) -> (d0, d1); (d0, d1) -> (d0, d1)",
        "%a, %e",
        "tensor<4x6xf32>, tensor<4x6xf32>",
        "tensor<4x6xf32>",
        f"""^bb0(%i: f32, %o: f32):
        %t = "arith.truncf"(%i) : (f32) -> {element}
        %p = "arith.mulf"(%t, %t) : ({element}, {element}) -> {element}
        %s = "arith.extf"(%p) : ({element}) -> f32
        {SUM}""",
    )
    ((found, _),) = run(tmp_path, module("%a: tensor<4x6xf32>", body, "%r: tensor<4x6xf32>"), X)

    def rounded(values: Any) -> Any:
        mantissas, exponents = np.frexp(values)
        return np.ldexp(np.rint(np.ldexp(mantissas, digits)), exponents - digits)

    normal = np.abs(X) > 0.01
    np.testing.assert_array_equal(found[normal], rounded(rounded(X) ** 2)[normal])


def test_constants_have_errors_where_programs_compute_with_them(tmp_path: Path) -> None:
    """An exponential that a compiler may fold in its own precision."""
    body = """
      %c = "arith.constant"() <{value = dense<[1.000000e+00, 0x40000000]> : tensor<2xf32>}> : () -> tensor<2xf32>
      %r = "math.exp"(%c) : (tensor<2xf32>) -> tensor<2xf32>
    """
    ((found, bound),) = run(tmp_path, module("%a: tensor<2xf32>", body, "%r: tensor<2xf32>"), np.zeros(2))
    np.testing.assert_allclose(found, np.exp([1.0, 2.0]))
    assert (bound > 2 * 2.0**-24 * found).all()


def test_the_index_of_a_branch_counts_only_where_it_is_taken(tmp_path: Path) -> None:
    body = """
      %one = "arith.constant"() <{value = 1 : index}> : () -> index
      %e = "tensor.empty"() : () -> tensor<4xf32>
    """ + generic(
        "(d0) -> (d0)", "%e", "tensor<4xf32>", "tensor<4xf32>",
        """
      ^bb0(%o: f32):
        %i = "linalg.index"() <{dim = 0 : i64}> : () -> index
        %first = "arith.cmpi"(%i, %one) <{predicate = 6 : i64}> : (index, index) -> i1
        %v = "scf.if"(%first) ({
          %x = "tensor.extract"(%a, %i) : (tensor<1xf32>, index) -> f32
          "scf.yield"(%x) : (f32) -> ()
        }, {
          %j = "arith.subi"(%i, %one) : (index, index) -> index
          %y = "tensor.extract"(%b, %j) : (tensor<3xf32>, index) -> f32
          "scf.yield"(%y) : (f32) -> ()
        }) : (i1) -> f32
        "linalg.yield"(%v) : (f32) -> ()""",
    )  # fmt: skip
    ((found, bound),) = run(
        tmp_path, module("%a: tensor<1xf32>, %b: tensor<3xf32>", body, "%r: tensor<4xf32>"), X[0, :1], X[1, :3]
    )
    np.testing.assert_array_equal(found, np.concatenate([X[0, :1], X[1, :3]]))
    assert not bound.any()


def test_the_element_of_a_constant(tmp_path: Path) -> None:
    body = """
      %c = "arith.constant"() <{value = dense<2.000000e+00> : tensor<f32>}> : () -> tensor<f32>
      %n = "tensor.extract"(%c) : (tensor<f32>) -> f32
      %r = "tensor.pad"(%a) <{operandSegmentSizes = array<i32: 1, 0, 0>, static_high = array<i64: 0>,
          static_low = array<i64: 1>}> ({
      ^bb0(%i: index):
        "tensor.yield"(%n) : (f32) -> ()
      }) : (tensor<4xf32>) -> tensor<5xf32>
    """
    ((found, _),) = run(tmp_path, module("%a: tensor<4xf32>", body, "%r: tensor<5xf32>"), X[:, 0])
    np.testing.assert_array_equal(found, [2, *X[:, 0]])


def test_constants_as_bytes(tmp_path: Path) -> None:
    """As MLIR prints more than 100 elements, and those of a model."""
    body = """
      %c = "arith.constant"() <{value = dense<"0x0000803F000000C0"> : tensor<2xf32>}> : () -> tensor<2xf32>
      %d = "arith.constant"() <{value = dense_resource<w> : tensor<2xf32>}> : () -> tensor<2xf32>
      %r = "arith.addf"(%c, %d) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
    """
    text = module("%a: tensor<2xf32>", body, "%r: tensor<2xf32>")
    resources = '{-#\n  dialect_resources: {\n    builtin: {\n      w: "0x040000000000803F00000040"\n    }\n  }\n#-}\n'
    ((found, _),) = run(tmp_path, text + resources, np.zeros(2))
    np.testing.assert_array_equal(found, [1 + 1, -2 + 2])


def test_attributes_of_older_releases_and_slices(tmp_path: Path) -> None:
    body = """
      %c = "arith.constant"() {value = 1 : index} : () -> index
      %s = "tensor.extract_slice"(%a, %c) {operand_segment_sizes = array<i32: 1, 1, 0, 0>,
        static_offsets = array<i64: -9223372036854775808, 0>,
        static_sizes = array<i64: 1, 3>, static_strides = array<i64: 1, 2>} : (tensor<4x6xf32>, index) -> tensor<3xf32>
      %r = "tensor.insert_slice"(%s, %b) {operand_segment_sizes = array<i32: 1, 1, 0, 0, 0>, static_offsets = array<i64: 1, 1>,
        static_sizes = array<i64: 3, 1>, static_strides = array<i64: 2, 1>} : (tensor<3xf32>, tensor<6x5xf32>) -> tensor<6x5xf32>
    """
    ((found, _),) = run(tmp_path, module("%a: tensor<4x6xf32>, %b: tensor<6x5xf32>", body, "%r: tensor<6x5xf32>"), X, Y)
    right = Y.copy()
    right[1::2, 1] = X[1, ::2]
    np.testing.assert_array_equal(found, right)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ('%r = "arith.divsi"(%a, %b) : (tensor<2xi32>, tensor<2xi32>) -> tensor<2xi32>', "divide by zero"),
        ('%r = "arith.shli"(%b, %a) : (tensor<2xi32>, tensor<2xi32>) -> tensor<2xi32>', "out of bounds"),
        (
            """%c = "arith.constant"() <{value = 2 : index}> : () -> index
            %e = "tensor.extract"(%a, %c) : (tensor<2xi32>, index) -> i32
            %r = "tensor.from_elements"(%e, %e) : (i32, i32) -> tensor<2xi32>""",
            "out of bounds",
        ),
        (
            """%e = "tensor.empty"() : () -> tensor<2xf32>
            %r = "math.exp"(%e) : (tensor<2xf32>) -> tensor<2xf32>""",
            "NaN",
        ),
    ],
)
def test_what_is_undefined_raises(tmp_path: Path, body: str, reason: str) -> None:
    element = "f32" if "f32" in body else "i32"
    text = module("%a: tensor<2xi32>, %b: tensor<2xi32>", body, f"%r: tensor<2x{element}>")
    with pytest.raises((ActionFailed, ArithmeticError, IndexError), match=reason):
        run(tmp_path, text, np.array([7, 32], np.int32), np.array([0, 1], np.int32))


def test_the_first_unknown_operation_is_named() -> None:
    text = module("%a: tensor<2xi32>", '%r = "tosa.abs"(%a) : (tensor<2xi32>) -> tensor<2xi32>', "%r: tensor<2xi32>")
    with pytest.raises(Untranslatable, match=r"^there is no NumPy for tosa\.abs$"):
        numpy_text(parse(text))
