"""Read @main in the generic form, whatever is printed around it."""

from __future__ import annotations

from typing import Any

import pytest

from mlir_matrix.actions.contract import ActionFailed
from mlir_matrix.actions.mlir.generic_form import Written, signature

#: As 15 and 16 print it, with the attributes after the body, and as 17 and later do.
OLD = """\
"builtin.module"() ({{
  "func.func"() ({{
  }}) {{function_type = (tensor<2xf32>) -> (), sym_name = "other", sym_visibility = "private"}} : () -> ()
  "func.func"() ({{
  ^bb0(%arg0: tensor<4x?xf32>, %arg1: i32):
    "func.return"() {{sym_name = "main"}} : () -> ()
  }}) {{{0}function_type = {1}, note = "sym_name", sym_name = "main"}} : () -> ()
  "builtin.module"() ({{
    "func.func"() ({{
      "func.return"() : () -> ()
    }}) {{function_type = (i1) -> (), sym_name = "main"}} : () -> ()
  }}) {{sym_name = "inner"}} : () -> ()
}}) : () -> ()
"""
NEW = """\
"builtin.module"() ({{
  "func.func"() <{{function_type = (tensor<2xf32>) -> (), sym_name = "other", sym_visibility = "private"}}> ({{
  }}) : () -> ()
  "builtin.module"() <{{sym_name = "inner"}}> ({{
    "func.func"() <{{function_type = (i1) -> (), sym_name = "main"}}> ({{
      "func.return"() : () -> ()
    }}) : () -> ()
  }}) : () -> ()
  "func.func"() <{{{0}function_type = {1}, sym_name = "main"}}> ({{
  ^bb0(%arg0: tensor<4x?xf32>, %arg1: i32):
    "func.return"() {{sym_name = "main"}} : () -> ()
  }}) {{note = "sym_name"}} : () -> ()
}}) : () -> ()
"""
LAYOUT = "memref<4xf32, affine_map<(d0) -> (d0 * 2)>>"


@pytest.mark.parametrize("form", [OLD, NEW])
@pytest.mark.parametrize("before", ["", 'arg_attrs = [{x.y = "a) -> (b"}, {}], '])
@pytest.mark.parametrize(
    ("text", "taken", "given"),
    [
        ("() -> ()", [], []),
        ("(tensor<4x?xf32>, i32) -> tensor<f64>", ["tensor<4x?xf32>", "i32"], ["tensor<f64>"]),
        ("(i32) -> (tensor<?x8xf32>, tensor<f64>)", ["i32"], ["tensor<?x8xf32>", "tensor<f64>"]),
        ("() -> tensor<2xf32, #x.y<{a = 1, b = [2, 3]}>>", [], ["tensor<2xf32, #x.y<{a = 1, b = [2, 3]}>>"]),
        (r'() -> tensor<2xf32, "a\"),b}">', [], [r'tensor<2xf32, "a\"),b}">']),
        (f"((i32) -> (i8, i1), {LAYOUT}) -> {LAYOUT}", ["(i32) -> (i8, i1)", LAYOUT], [LAYOUT]),
        (f"({LAYOUT}) -> ((i8) -> i1, {LAYOUT})", [LAYOUT], ["(i8) -> i1", LAYOUT]),
    ],
)
def test_the_signature(form: str, before: str, text: str, taken: list[str], given: list[str]) -> None:
    found = signature(form.format(before, text))
    assert [[str(kind) for kind in kinds] for kinds in found] == [taken, given]


@pytest.mark.parametrize("form", [OLD, NEW])
def test_no_main_of_the_module_itself(form: str) -> None:
    """That of a module inside is another one."""
    text = form.format("", "() -> ()")
    found = next(line for line in text.splitlines() if 'sym_name = "main"}' in line and line.startswith(('  "', "  }")))
    with pytest.raises(ActionFailed, match=r"the file has no func\.func @main"):
        signature(text.replace(found, found.replace('"main"', '"mine"')))


#: @main as 15 and 16 print it, and as 17 and later do, after something that is not it.
MAIN = (
    """  "func.func"() ({{
    "func.return"() : () -> ()
  }}) {{{0}function_type = (i8) -> (), sym_name = "main"}} : () -> ()
""",
    """  "func.func"() <{{{0}function_type = (i8) -> (), sym_name = "main"}}> ({{
    "func.return"() : () -> ()
  }}) : () -> ()
""",
)
OTHERS = {
    "an attribute of another function": (
        """  "func.func"() ({
    "func.return"() : () -> ()
  }) {function_type = () -> (), my.d = {sym_name = "main"}, my.sym_name = "main", sym_name = "other"} : () -> ()
""",
        """  "func.func"() <{function_type = () -> (), sym_name = "other"}> ({
    "func.return"() : () -> ()
  }) {my.d = {sym_name = "main"}, my.sym_name = "main", sym_name = "main", "sym_name = " = "main"} : () -> ()
""",
    ),
    "a string of another function": (
        """  "func.func"() ({
  }) {function_type = () -> (), my.s = "}, sym_name = \\22main\\22, ", sym_name = "ma\\22in", z} : () -> ()
""",
        """  "func.func"() <{arg_attrs = [{my.s = "sym_name = \\22main\\22"}], function_type = () -> (), sym_name = "ma\\22in"}> ({
  }) {my.s = "}, sym_name = \\22main\\22, ", z} : () -> ()
""",
    ),
    "a function of another dialect": (
        """  "llvm.func"() ({
  }) {function_type = !llvm.func<void ()>, linkage = #llvm.linkage<external>, sym_name = "main"} : () -> ()
""",
        """  "llvm.func"() <{function_type = !llvm.func<void ()>, sym_name = "main"}> ({
  }) : () -> ()
""",
    ),
    "a module": (
        """  "builtin.module"() ({
    "func.func"() ({
    }) {function_type = (i1) -> (), sym_name = "main"} : () -> ()
  }) {sym_name = "main"} : () -> ()
""",
        """  "builtin.module"() <{sym_name = "main"}> ({
    "func.func"() <{function_type = (i1) -> (), sym_name = "main"}> ({
    }) : () -> ()
  }) : () -> ()
""",
    ),
    "something that gives something": (
        """  %0:2 = "x.op"() ({
  ^bb0:
    "x.y"() {sym_name = "main"} : () -> ()
  }, {
  }) {function_type = (i1) -> (), sym_name = "main"} : () -> (i32, i32)
""",
        """  "x.op"() <{function_type = (i1) -> (), sym_name = "main"}> : () -> ()
""",
    ),
}


@pytest.mark.parametrize("before", ["", 'arg_attrs = [{my.doc = "function_type = ("}], ', "a = {function_type = i1}, "])
@pytest.mark.parametrize("form", [0, 1])
@pytest.mark.parametrize("what", OTHERS)
def test_only_main_is_main(what: str, form: int, before: str) -> None:
    """Whatever else looks like it stands before it; alone it is not taken for it."""
    other = OTHERS[what][form]
    taken, given = signature(f'"builtin.module"() ({{\n{other}{MAIN[form].format(before)}}}) : () -> ()\n')
    assert [[str(kind) for kind in kinds] for kinds in (taken, given)] == [["i8"], []]
    with pytest.raises(ActionFailed, match=r"the file has no func\.func @main"):
        signature(f'"builtin.module"() ({{\n{other}}}) : () -> ()\n')


@pytest.mark.parametrize(
    ("text", "tensor"),
    [
        ("tensor<f32>", ([], "f32")), ("tensor<4x?x0xbf16>", ([4, None, 0], "bf16")), ("tensor<12xi1>", ([12], "i1")),
        ("f32", None), ("tensor<*xf32>", None), ("tensor<2xf32, #x.y>", None), ("memref<2xf32>", None),
        ("tensor<2x!x.y>", None), ("tensor<2xcomplex<f32>>", None), ("vector<2xf32>", None), ("tensor<2xindex>", ([2], "index")),
    ],
)  # fmt: skip
def test_types(text: str, tensor: Any) -> None:
    assert Written(text).tensor == tensor
    assert str(Written(text)) == text
