"""What each kind of edit does: programs, what has to stay in their text, and all that is left in the end."""

from __future__ import annotations

import re
from collections.abc import Iterable

import pytest

from mlir_matrix.reduction.constants import constant_text, elements_of, number_text
from mlir_matrix.reduction.search import Candidate, reduce
from mlir_matrix.reduction.tree import Module, parse, text_of, walk


class TextTester:
    """A predicate on texts: patterns that must all be found."""

    def __init__(self, patterns: Iterable[str]) -> None:
        self.patterns = list(patterns)

    def first(self, candidates: Iterable[Candidate]) -> Candidate | None:
        shown = (each for each in candidates if all(re.search(one, text_of(each.module)) for one in self.patterns))
        return next(shown, None)


def module_of(
    body: str, signature: str = "() -> ()", arguments: str = "", *, name: str = "main", region: str = ""
) -> Module:
    head = f'"builtin.module"() ({{\n"func.func"() <{{function_type = {signature}, sym_name = "{name}"}}> ({{\n^bb0({arguments}):\n'
    return parse(f"{head}{body}\n{region}}}) : () -> ()\n}}) : () -> ()")


def reduced(module: Module, *patterns: str) -> str:
    """Return the text of the body, without indentation."""
    lines = text_of(reduce(module, TextTester(patterns)).module).split("\n")[2:-3]
    return "\n".join(line.strip() for line in lines)


RETURN = '"func.return"() : () -> ()'


@pytest.mark.parametrize(
    ("module", "patterns", "expected"),
    [
        # A new argument takes the place of what computes a tensor.
        (module_of(
            '%1 = "a.long"(%a) : (tensor<4xf32>) -> tensor<4xf64>\n%2 = "a.odd"(%1) : (tensor<4xf64>) -> tensor<4xf32>\n'
            '%3 = "a.rest"(%2) : (tensor<4xf32>) -> tensor<4xf32>\n"func.return"(%3) : (tensor<4xf32>) -> ()',
            "(tensor<4xf32>) -> tensor<4xf32>", "%a: tensor<4xf32>"),
         ["a.odd", "tensor<4xf64>", "-> tensor<4xf32>"],
         '^bb0(%arg0: tensor<4xf64>):\n%0 = "a.odd"(%arg0) : (tensor<4xf64>) -> tensor<4xf32>\n'
         '"func.return"(%0) : (tensor<4xf32>) -> ()'),
        # Sizes that stand in proportion, those that keep a difference, and lists of sizes.
        (module_of(
            '%1 = "a.collapse"(%a) : (tensor<4x6xf32>) -> tensor<24xf32>\n"a.use"(%1) : (tensor<24xf32>) -> ()\n' + RETURN,
            "(tensor<4x6xf32>) -> ()", "%a: tensor<4x6xf32>"),
         ["a.use", r"4x2xf32>\) -> tensor<8x|4x6xf32>\) -> tensor<24x"],
         '^bb0(%arg0: tensor<4x2xf32>):\n%0 = "a.collapse"(%arg0) : (tensor<4x2xf32>) -> tensor<8xf32>\n'
         '"a.use"(%0) : (tensor<8xf32>) -> ()\n' + RETURN),
        (module_of(
            '%1 = "a.window"(%a) : (tensor<10xf32>) -> tensor<8xf32>\n"a.use"(%1) : (tensor<8xf32>) -> ()\n' + RETURN,
            "(tensor<10xf32>) -> ()", "%a: tensor<10xf32>"),
         ["a.use", r"3xf32>\) -> tensor<1x|10xf32>\) -> tensor<8x"],
         '^bb0(%arg0: tensor<3xf32>):\n%0 = "a.window"(%arg0) : (tensor<3xf32>) -> tensor<1xf32>\n'
         '"a.use"(%0) : (tensor<1xf32>) -> ()\n' + RETURN),
        (module_of('"a.slice"(%a) <{static_sizes = array<i64: 9>}> : (tensor<9xf32>) -> ()\n' + RETURN,
                   "(tensor<9xf32>) -> ()", "%a: tensor<9xf32>"),
         [r"array<i64: (9.*<9x|4.*<4x)"],
         '^bb0(%arg0: tensor<4xf32>):\n"a.slice"(%arg0) <{static_sizes = array<i64: 4>}> : (tensor<4xf32>) -> ()\n' + RETURN),
        # Elements of constants are those of the first rows and columns, until one number is enough.
        (module_of(
            '%1 = "arith.constant"() <{value = dense<[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]> : tensor<2x3xf32>}> '
            ': () -> tensor<2x3xf32>\n'
            '"a.odd"(%1) : (tensor<2x3xf32>) -> ()\n' + RETURN),
         ["a.odd", r"\[\[?1.0, 2.0"],
         '%0 = "arith.constant"() <{value = dense<[[1.0, 2.0], [4.0, 5.0]]> : tensor<2x2xf32>}> : () -> tensor<2x2xf32>\n'
         '"a.odd"(%0) : (tensor<2x2xf32>) -> ()\n' + RETURN),
        # Plain element types; a cast between two that are the same goes.
        (module_of(
            '%1 = "arith.constant"() <{value = 0xFFF0000000000000 : f64}> : () -> f64\n'
            '%2 = "arith.truncf"(%1) : (f64) -> f32\n"a.odd"(%2, %1) : (f32, f64) -> ()\n' + RETURN),
         ["a.odd", "0xFF[F8]0"],
         '%0 = "arith.constant"() <{value = 0xFF800000 : f32}> : () -> f32\n"a.odd"(%0, %0) : (f32, f32) -> ()\n' + RETURN),
        # A loop becomes its first turn.
        (module_of(
            '%0 = "arith.constant"() <{value = 7 : index}> : () -> index\n%1 = "scf.for"(%0, %0, %0, %a) ({\n'
            '^bb0(%i: index, %s: f32):\n'
            '%2 = "a.odd"(%i, %s) : (index, f32) -> f32\n"scf.yield"(%2) : (f32) -> ()\n}) : (index, index, index, f32) -> f32\n'
            '"a.use"(%1) : (f32) -> ()\n' + RETURN, "(f32) -> ()", "%a: f32"),
         ["a.odd", "a.use"],
         '^bb0(%arg0: f32):\n%0 = "arith.constant"() <{value = 0 : index}> : () -> index\n'
         '%1 = "a.odd"(%0, %arg0) : (index, f32) -> f32\n"a.use"(%1) : (f32) -> ()\n' + RETURN),
        # A branch goes the way that is needed, and blocks are joined.
        (module_of(
            '"cf.cond_br"(%a, %b)[^bb1, ^bb2] <{operandSegmentSizes = array<i32: 1, 0, 1>}> : (i1, i32) -> ()',
            "(i1, i32) -> ()", "%a: i1, %b: i32",
            region=f'^bb1:\n{RETURN}\n^bb2(%c: i32):\n"a.odd"(%c) : (i32) -> ()\n"cf.br"()[^bb1] : () -> ()\n'),
         ["a.odd"],
         '^bb0(%arg0: i32):\n"a.odd"(%arg0) : (i32) -> ()\n' + RETURN),
        # What an operation of an IR test stores is returned in its place; then nothing needs the operation.
        (module_of('%0 = "a.odd"() : () -> i32\n%1 = "a.next"(%0) : (i32) -> i32\n"a.store"(%1, %a) : (i32, i32) -> ()\n' + RETURN,
                   "(i32) -> ()", "%a: i32"),
         ["a.odd", "a.next"],
         '%0 = "a.odd"() : () -> i32\n%1 = "a.next"(%0) : (i32) -> i32\n"func.return"(%1) : (i32) -> ()'),
    ],
)  # fmt: skip
def test_edits(module: Module, patterns: list[str], expected: str) -> None:
    assert reduced(module, *patterns) == expected


GENERIC = """\
%1, %2 = "linalg.generic"(%a, %b, %b, %a) <{
  indexing_maps = [affine_map<(d0) -> (0)>, affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>],
  operandSegmentSizes = array<i32: 2, 2>}> ({
^bb0(%c: f32, %d: f32, %e: f32, %f: f32):
  %3 = "a.odd"(%d) : (f32) -> f32
  "linalg.yield"(%3, %f) : (f32, f32) -> ()
}) : (tensor<1xf32>, tensor<1xf32>, tensor<1xf32>, tensor<1xf32>) -> (tensor<1xf32>, tensor<1xf32>)
"func.return"(%1) : (tensor<1xf32>) -> ()"""


@pytest.mark.parametrize(
    ("segments", "left"),
    [
        ("operandSegmentSizes = array<i32: 2, 2>", "operandSegmentSizes = array<i32: 1, 1>"),
        ("operand_segment_sizes = dense<2> : vector<2xi32>", "operand_segment_sizes = dense<[1, 1]> : vector<2xi32>"),
    ],
)
def test_operands_of_generic(segments: str, left: str) -> None:
    body = GENERIC.replace("operandSegmentSizes = array<i32: 2, 2>", segments)
    types = "(tensor<1xf32>, tensor<1xf32>) -> tensor<1xf32>"
    text = reduced(
        module_of(body, types, "%a: tensor<1xf32>, %b: tensor<1xf32>"), "a.odd", "linalg.generic", "[sS]egment"
    )
    assert left in text
    assert text.count("affine_map") == 2
    assert "-> tensor<1xf32>" in text


def test_functions_of_llvm() -> None:
    """A loop without an end becomes a return; arguments and results leave the function's type."""
    module = parse(
        '"builtin.module"() ({\n"llvm.func"() <{function_type = !llvm.func<struct<(ptr, i32)> (i1, i32)>, sym_name = "f"}> ({\n'
        '^bb0(%a: i1, %b: i32):\n"llvm.cond_br"(%a, %b)[^bb1, ^bb2] : (i1, i32) -> ()\n'
        '^bb1(%c: i32):\n"a.odd"(%c) : (i32) -> ()\n"llvm.br"(%c)[^bb1] : (i32) -> ()\n'
        '^bb2:\n%r = "a.pair"() : () -> !llvm.struct<(ptr, i32)>\n"llvm.return"(%r) : (!llvm.struct<(ptr, i32)>) -> ()\n'
        "}) : () -> ()\n}) : () -> ()"
    )
    text = text_of(reduce(module, TextTester(["a.odd"])).module)
    assert "function_type = !llvm.func<void (i32)>" in text
    assert text.count("^bb") == 1
    assert '    "a.odd"(%arg0) : (i32) -> ()\n    "llvm.return"() : () -> ()\n' in text


def test_formulas_of_inputs() -> None:
    module = module_of('"a.odd"(%a) : (tensor<4xf32>) -> ()\n' + RETURN, "(tensor<4xf32>) -> ()", "%a: tensor<4xf32>")
    module.operation.regions[0][0].operations[0].regions[0][0].arguments[0].input = "x"
    assert reduce(module, TextTester(["%arg0"])).formulas == {"x": "1"}
    assert reduce(module, TextTester(["nothing"])).formulas == {}
    # Indices and sizes stay in bounds.
    assert reduce(module, TextTester(["%arg0"]), formulas={"x": "iota()"}).formulas == {"x": "iota()"}


def test_program_without_used_inputs() -> None:
    arguments = "%a: tensor<4xf32>, %b: tensor<4xf32>"
    module = module_of(RETURN, "(tensor<4xf32>, tensor<4xf32>) -> ()", arguments)
    assert reduced(module) == RETURN
    for value, name in zip(list(walk(module.operation))[1].regions[0][0].arguments, "xy", strict=True):
        value.input = name
    assert reduced(module) == f"^bb0(%arg0: tensor<1xf32>):\n{RETURN}"


def test_unused_resources_and_functions() -> None:
    text = text_of(module_of(RETURN)).replace(
        "\n})", '\n"func.func"() <{function_type = () -> (), sym_name = "f"}> ({}) : () -> ()\n})'
    )
    module = parse(text + "{-# dialect_resources: {} #-}")
    assert text_of(reduce(module, TextTester([])).module) == text_of(module_of(RETURN))


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("true", [1]), ("7 : i32", [7]), ("dense<[[1, -2]]> : tensor<1x2xi64>", [1, -2]), ("1.500000e+00 : f64", [1.5]),
        ("0x7F80 : bf16", [float("inf")]), ('dense<"0x0000803F00000040"> : tensor<2xf32>', [1, 2]), ("@f", None),
        ("dense<(1.0, 2.0)> : tensor<2xcomplex<f32>>", None), ("dense_resource<r> : tensor<2xf32>", None), ("unit : f32", None),
    ],
)  # fmt: skip
def test_numbers(text: str, numbers: list[float] | None) -> None:
    found = elements_of(text)
    assert (found and found[0]) == numbers


@pytest.mark.parametrize(
    ("type_", "number", "text"),
    [
        ("f32", 1, "1.0 : f32"), ("i1", 0, "false"), ("index", 2, "2 : index"), ("tensor<?xf32>", 1, ""), ("memref<4xf32>", 1, ""),
        ("vector<4xi8>", 3, "dense<3> : vector<4xi8>"), ("!torch.vtensor<[2,3],f32>", 0, "dense<0.0> : tensor<2x3xf32>"),
        ("f64", float("-inf"), "0xFFF0000000000000 : f64"), ("f32", 1e30, "1.0e+30 : f32"), ("tensor<!t>", 1, ""),
    ],
)  # fmt: skip
def test_constant_text(type_: str, number: float, text: str) -> None:
    assert constant_text(type_, number) == text


def test_bits_of_bf16() -> None:
    assert number_text(float("inf"), "bf16") == "0x7F80"
