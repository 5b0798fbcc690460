"""What every ingress refuses: sources that do not take and give what the workload declares."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest

from mlir_matrix.actions.contract import ActionFailed
from mlir_matrix.actions.runtime.source import Tensor, check_arguments, check_names

INPUTS = [Tensor(name=name, shape=(2,), dtype="f32") for name in ("a", "b")]


@pytest.mark.parametrize(
    "function",
    [
        lambda a, b: a,
        lambda a, /, b: a,
        lambda *arguments: arguments,
        lambda a, *rest: a,
        functools.partial(lambda c, a, b: a, 1),
        max,
    ],
)
def test_functions_that_may_be_called_so(function: Callable[..., Any]) -> None:
    check_arguments(function, INPUTS)


@pytest.mark.parametrize("function", [lambda **named: named, lambda a, *, b: a, lambda a, b, c, *rest: a])
def test_functions_that_cannot_be_called_so(function: Callable[..., Any]) -> None:
    """Said before they are called: there the TypeError would come from a frame of ours."""
    with pytest.raises(ActionFailed, match="does not take 2 arguments in order: "):
        check_arguments(function, INPUTS)


@pytest.mark.parametrize(
    ("function", "names"), [(lambda b, a: a - b, "b, a"), (lambda a: a, "a"), (lambda x, y: x, "x, y"), (lambda: 1, "")]
)
def test_functions_that_would_mix_them_up(function: Callable[..., Any], names: str) -> None:
    with pytest.raises(ActionFailed) as caught:
        check_arguments(function, INPUTS)
    assert caught.value.reason == f"declared inputs (a, b), the source has ({names})"


def test_names() -> None:
    check_names("outputs", ["y", "z"], ("y", "z"))
    with pytest.raises(ActionFailed, match=r"declared outputs \(y\), the source has \(z\)"):
        check_names("outputs", ["y"], ["z"])
