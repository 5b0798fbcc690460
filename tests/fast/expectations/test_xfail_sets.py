"""Sets of expected failures in upstream's Python file: they are those that Python itself computes, without running the file."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packaging import version

from mlir_matrix.base.errors import UsageError
from mlir_matrix.expectations.xfail_sets import read_sets

literals = st.sets(st.sampled_from("abcdef")).map(lambda names: repr(names) if names else "set()")
#: Every name is defined before it is used.
expressions = st.recursive(
    literals | st.sampled_from(["A", "B"]),
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from("|-&"), inner).map(lambda parts: f"({' '.join(parts)})"),
        st.tuples(inner, st.sampled_from(["union", "difference", "intersection"]), inner).map(
            lambda parts: f"{parts[0]}.{parts[1]}({parts[2]})"
        ),
    ),
    max_leaves=6,
)
statements = st.one_of(
    st.tuples(st.sampled_from("AB"), st.sampled_from(["=", "|=", "-=", "&="]), expressions).map(" ".join),
    # Then both are names of one set.
    st.sampled_from(["A = B", "B = A"]),
    st.tuples(st.sampled_from(["<", "<=", ">", ">=", "==", "!="]), st.sampled_from(["2.12.0", "2.13.0", "2.13.0.dev", "2.14"]),
              expressions, expressions).map(
        lambda parts: f'if torch_version_for_comparison() {parts[0]} version.parse("{parts[1]}"):\n    A = {parts[2]}\n'
                      f"else:\n    B = {parts[3]}"
    ),
)  # fmt: skip


@given(st.lists(statements, max_size=5))
def test_sets_are_those_of_python(tmp_path_factory: pytest.TempPathFactory, lines: list[str]) -> None:
    text = "\n".join(["A = {'a', 'b'}", "B = frozenset(['c'])", "print('no effect')", *lines, ""])
    values = {
        "torch_version_for_comparison": lambda: version.parse("2.13.0"),
        "version": version,
        "print": lambda _: None,
    }
    exec(text, values)
    file = tmp_path_factory.mktemp("sets") / "sets.py"
    file.write_text(text)
    assert read_sets(file, ["A", "B"], {"torch": "2.13.0+cpu"}) == {name: values[name] for name in "AB"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("from other import COMMON\nA = COMMON | {'a'}\n", "sets.py:2: 'COMMON' is not defined in this file, so set A is unknown"),
        ("A = {f() for f in ()}\n", "sets.py:1: not a set of names: {f() for f in ()}, so set A is unknown"),
        ("A = {'a'}\nif os.name == 'nt':\n    A = set()\n", "sets.py:2: not a version: os.name, so set A is unknown"),
        ("A = {'a'}\nA.update(['b'])\n", "sets.py:2: a statement that is not read, so set A is unknown"),
        ("A = {'a'}\nB = A\nB.update(['b'])\n", "sets.py:3: a statement that is not read, so set A is unknown"),
        ("A = {'a'}\nfor A in ():\n    pass\n", "sets.py:2: a statement that is not read, so set A is unknown"),
        ("A = {'a', 3}\n", "sets.py:1: not a name in quotes: 3, so set A is unknown"),
        ("B = {'a'}\n", "there is no set 'A'"),
        ("A = {\n", "sets.py:1: not a Python file: '{' was never closed"),
        ("\0", "not a Python file"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_an_error_with_its_line(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "sets.py"
    file.write_text(text)
    with pytest.raises(UsageError) as error:
        read_sets(file, ["A"], {"torch": "2.13.0"})
    assert message in str(error.value)


def test_a_set_that_is_not_wanted_may_be_unknown(tmp_path: Path) -> None:
    file = tmp_path / "sets.py"
    file.write_text("from other import COMMON\nB = COMMON | {'b'}\nA = {'a'}\nB = B - {'a'}\n")
    assert read_sets(file, ["A"], {}) == {"A": {"a"}}
    with pytest.raises(UsageError, match="cannot be read: No such file"):
        read_sets(tmp_path / "absent.py", ["A"], {})
