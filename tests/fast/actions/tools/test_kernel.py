"""What all that make or call kernels agree on."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from mlir_matrix.actions.contract import Action, ActionFailed
from mlir_matrix.actions.mlir import interface


def level(**parameters: Any) -> int:
    params = {"parameters": parameters} if parameters else {}
    return interface.opt_level(Action(params=params, inputs={}, outputs={}))


@pytest.mark.parametrize("wanted", [0, 1, 2, 3])
def test_levels(wanted: int) -> None:
    assert level(**{"opt-level": wanted}) == wanted


def test_the_default_level() -> None:
    assert level() == level(other=1) == 2


@pytest.mark.parametrize("wanted", [4, -1, "2", True, False, 1.5, None])
def test_levels_that_do_not_exist(wanted: Any) -> None:
    with pytest.raises(ActionFailed, match=f"opt-level is {wanted!r}; it must be 0, 1, 2 or 3"):
        level(**{"opt-level": wanted})


def test_the_entry_point_has_one_name(driver_sources: Mapping[str, str]) -> None:
    """The driver calls it so, too."""
    assert f"Kernel {interface.ENTRY};" in Path(driver_sources["main.c"]).read_text(encoding="utf-8")
    assert interface.without_entry().reason.startswith(f"the IR has no function {interface.ENTRY};")


def test_limits_are_those_of_the_driver(driver_sources: Mapping[str, str]) -> None:
    for file, name in (("call.h", "MAX_POINTERS"), ("spec.h", "MAX_RANK")):
        assert f"{name} = {getattr(interface, name)}" in Path(driver_sources[file]).read_text(encoding="utf-8")
