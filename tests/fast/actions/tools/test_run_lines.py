"""RUN lines: what lit reads is read as lit reads it, and what needs a shell is refused with its line."""

from __future__ import annotations

import shlex
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlir_matrix.actions.runtime.source import load
from support.house import REPOSITORY

script_of = load(str(REPOSITORY / "recipes/steps/run-lines/tool.py"), "script_of")
FEATURES = {"native", "x86_64", "target=x86_64-unknown-linux-gnu"}


def script(*lines: str) -> dict[str, Any]:
    found: dict[str, Any] = script_of("\n".join(lines), FEATURES, {})
    return found


def words(*lines: str) -> list[list[str]]:
    """The words of all commands of a test that can be run."""
    found = script(*lines)
    assert found["refused"] == found["unsupported"] == ""
    return [command["words"] for line in found["lines"] for command in line["commands"]]


@pytest.mark.parametrize(
    ("line", "commands"),
    [
        ("mlir-opt %s -o %t", [["mlir-opt", "test.mlir", "-o", "tmp/test.mlir.tmp"]]),
        ("mlir-opt %s|FileCheck %s", [["mlir-opt", "test.mlir"], ["FileCheck", "test.mlir"]]),
        ("a --x='b c' \"d \\\" e\" f\\ g", [["a", "--x=b c", 'd " e', "f g"]]),
        ("a --passes=builtin.module(cse) tile-sizes=[4,4]", [["a", "--passes=builtin.module(cse)", "tile-sizes=[4,4]"]]),
        ("a '*' \"?\" '$(x)' 100%%", [["a", "*", "?", "$(x)", "100%"]]),
        ("a -shared-libs=%mlir_c_runner_utils,%mlir_lib_dir/libx%shlibext",
         [["a", "-shared-libs=lib/libmlir_c_runner_utils.so,lib/libx.so"]]),
        ("a %(line) %(line+2) %(line - 1)", [["a", "1", "3", "0"]]),
        ("%if native %{ a %} %else %{ b %} c", [["a", "c"]]),
        ("%if gpu %{ a %if native %{ x %} %} %else %{ b %} c", [["b", "c"]]),
    ],
)  # fmt: skip
def test_commands(line: str, commands: list[list[str]]) -> None:
    assert words(f"// RUN: {line}") == commands


def test_redirections_and_what_joins_commands() -> None:
    (line,) = script("// RUN: a < b > c 2>&1 && not d 2> e || f ; g &> h")["lines"]
    assert [(each["after"], each["words"], each["redirects"]) for each in line["commands"]] == [
        (";", ["a"], [["<", "b"], [">", "c"], ["2>&1", ""]]),
        ("&&", ["not", "d"], [["2>", "e"]]),
        ("||", ["f"], []),
        (";", ["g"], [["&>", "h"]]),
    ]


def test_files_beside_the_test() -> None:
    (line,) = script("// RUN: a --x=%S/td/b.mlir --y='z=%p/c.mlir' D=%mlir_src_dir/test/d.mtx %t %s")["lines"]
    assert line["beside"] == ["./td/b.mlir", "./c.mlir", "@root@/mlir/test/d.mtx"]


def test_definitions_hold_until_they_are_replaced() -> None:
    lines = [
        "// DEFINE: %{opts} = --one",
        "// DEFINE: %{compile} = mlir-opt %s \\",
        "// DEFINE:   %{opts}",
        "// RUN: %{compile} | FileCheck %s",
        "// REDEFINE: %{opts} = --two",
        "// RUN: %{compile}",
        "// CHECK: RUN",
    ]
    assert words(*lines) == [
        ["mlir-opt", "test.mlir", "--one"],
        ["FileCheck", "test.mlir"],
        ["mlir-opt", "test.mlir", "--two"],
    ]


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        (["func.func @f()"], "the test has no RUN line"),
        (["// RUN: a \\"], "line 1: RUN ends in '\\', but no line continues it"),
        (["// RUN: a \\", "// DEFINE: %{x} = y"], "line 1: RUN ends in '\\'"),
        (["// RUN: a %nothing"], "line 1: unknown substitution '%nothing'"),
        (["// RUN: a %{nothing}"], "line 1: unknown substitution '%{nothing}'"),
        (["// RUN: a $(ls)"], "line 1: '$(' needs a shell"),
        (["// RUN: a \"$(ls)\""], "needs a shell"),
        (["// RUN: a $HOME"], "line 1: '$H' needs a shell"),
        (["// RUN: a `ls`"], "line 1: '`' needs a shell"),
        (["// RUN: a *.mlir"], "line 1: '*' needs a shell"),
        (["// RUN: (a)"], "line 1: '(' needs a shell"),
        (["// RUN: a &"], "in the background needs a shell"),
        (["// RUN: a 'b"], "a quote is not closed"),
        (["// RUN: a >"], "'>' without a file"),
        (["// RUN: a > | b"], "'>' without a file"),
        (["// RUN: | b"], "a command is missing"),
        (["// RUN: a &&"], "a command is missing"),
        (["// RUN:"], "the test has no RUN line"),
        (["// RUN: a << EOF"], "line 1: '<<' needs a shell"),
        (["// RUN: a \0"], "line 1: a command has a NUL character"),
        (["// RUN: %python a"], "line 1: unknown substitution '%python'"),
        (["// RUN: a %host_cc"], "line 1: unknown substitution '%host_cc'"),
        (["// RUN: %if native %{ a"], "'%if' without '%}'"),
        (["// DEFINE: x = y"], "line 1: DEFINE needs a new %{name} = value"),
        (["// REDEFINE: %{x} = y"], "line 1: REDEFINE needs a defined %{name} = value"),
        (["// DEFINE: %{x} = %{x}%{x}", "// RUN: a %{x}"], "after substitution"),
        (["// DEFINE: %{x} = a%{x}", "// RUN: %{x}"], "refer to each other more than 30 deep"),
        (["// REQUIRES: native &&", "// RUN: a"], "line 1: 'native &&' is no condition of features"),
        ([f"// REQUIRES: {'(' * 5000}", "// RUN: a"], "is no condition of features"),
        (["// RUN: a"] * 2000, "more than 1000 directives"),
    ],
)  # fmt: skip
def test_what_is_refused(lines: list[str], why: str) -> None:
    found = script(*lines)
    assert why in found["refused"]
    assert len(found["refused"]) <= 301
    assert not found["unsupported"]


@pytest.mark.parametrize(
    ("condition", "met"),
    [
        ("native", True),
        ("gpu", False),
        ("native, gpu", False),
        ("native && !gpu", True),
        ("gpu || (native && x86_64)", True),
        ("target=x86{{.*}}", True),
        ("target={{(s390x|sparc.*)-.*}}", False),
    ],
)
def test_requirements(condition: str, met: bool) -> None:
    why = script(f"// REQUIRES: {condition}", "// RUN: a")["unsupported"]
    assert why == "" if met else why.startswith("REQUIRES: ")


def test_unsupported_and_failing_tests() -> None:
    assert script("// UNSUPPORTED: gpu, x86_64", "// RUN: a")["unsupported"] == "UNSUPPORTED: gpu, x86_64 (line 1)"
    assert script("// XFAIL: *", "// RUN: a")["fails"] is True
    assert script("// XFAIL: gpu", "// RUN: a")["fails"] is False
    assert script("// RUN: %if gpu %{ a %}")["unsupported"] == "all RUN lines are for other features"
    # What follows END. is no directive.
    assert words("// RUN: a", "// CHECK-END: x", "// END: y", "// END.", "// RUN: b") == [["a"]]


@given(
    st.lists(
        st.text(
            alphabet=st.characters(
                exclude_characters="%\\\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029", exclude_categories=["Cs", "Cc"]
            ),
            min_size=1,
        ),
        min_size=1,
    )
)
def test_quoted_words_are_read_as_a_shell_reads_them(given_words: list[str]) -> None:
    line = "a " + " ".join(map(shlex.quote, given_words))
    assert words(f"// RUN: {line}") == [shlex.split(line)]


PIECES = [*"ab %{}()'\"\\|&;<>$`*?=-,!\n", "\n// RUN: ", "\n// DEFINE: %{a} =", "\n// REQUIRES: ", "%if ", "%{a}", "%s"]


@given(st.lists(st.sampled_from(PIECES)).map("".join))
def test_no_text_is_too_odd(text: str) -> None:
    found = script("// RUN: " + text)
    assert found["refused"] or found["unsupported"] or found["lines"]
