"""Findings are known in the releases that a file says."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mlir_matrix.base.errors import CatalogError
from mlir_matrix.catalog.pins import read_pins, read_step_pins
from mlir_matrix.environments.session import Session
from mlir_matrix.fuzz.known import read_known

ALWAYS, BEFORE_23, OF_TORCH_MLIR = "0" * 12, "1" * 12, "2" * 12


def write(file: Path, *findings: dict[str, Any]) -> Path:
    """Write findings into a file, and return it."""
    whole = [{"key": ALWAYS, "link": "https://example.com", "reason": "It is wrong.", **each} for each in findings]
    file.write_text(json.dumps({"findings": whole}))
    return file


@pytest.mark.parametrize(
    ("release", "expected"),
    [("22", {ALWAYS, BEFORE_23}), ("23.1", {ALWAYS}), ("24.0.0+torch-mlir.20261001", {ALWAYS, OF_TORCH_MLIR})],
)
def test_findings_are_known_in_their_releases(
    current: Session, tmp_path: Path, release: str, expected: set[str]
) -> None:
    file = write(
        tmp_path / "known.yaml",
        {},
        {"key": BEFORE_23, "when": {"llvm": "<23"}},
        {"key": OF_TORCH_MLIR, "carries": {"llvm": "tm-tensor"}},
    )
    known = read_known(current.with_pins(read_pins(current.catalog, [f"llvm={release}"])), file)
    assert {key for key in (ALWAYS, BEFORE_23, OF_TORCH_MLIR) if known.link(key, [""])} == expected


def test_findings_are_known_in_the_releases_of_their_steps(current: Session, tmp_path: Path) -> None:
    file = write(tmp_path / "known.yaml", {"key": BEFORE_23, "when": {"llvm": "<23"}})
    pins = read_step_pins(current.catalog, ["linalg-to-loops:llvm=22", "bufferize:llvm=23.1"])
    known = read_known(replace(current, pins=replace(current.pins, steps=pins)), file)
    assert known.link(BEFORE_23, ["linalg-to-loops"])
    assert not known.link(BEFORE_23, ["bufferize"])


@pytest.mark.parametrize(
    ("conditions", "message"),
    [
        ({"when": {"lvm": "<23"}}, "there is no component 'lvm'; did you mean 'llvm'?"),
        ({"when": {"llvm": "until 23"}}, "'until 23' is no range of releases"),
        ({"carries": {"llvm": "tm-tensors"}}, "no release of llvm carries 'tm-tensors'; did you mean 'tm-tensor'?"),
    ],
)
def test_conditions_that_are_wrong(current: Session, tmp_path: Path, conditions: dict[str, Any], message: str) -> None:
    with pytest.raises(CatalogError, match=r"known.yaml:1:\d+") as raised:
        read_known(current, write(tmp_path / "known.yaml", conditions))
    assert message in str(raised.value)
