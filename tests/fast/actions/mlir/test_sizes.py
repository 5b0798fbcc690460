"""Sizes in types, and programs that have no others."""

from __future__ import annotations

import pytest

from mlir_matrix.actions.mlir.sizes import resized, sizes_of, why_not_resizable


def test_sizes_are_those_of_types() -> None:
    text = "%c5 = arith.constant 5.0 : f32  tensor<5x?x7xf32>, memref<3xi8>, !torch.vtensor<[4,?],f32>"
    assert sizes_of(text) == [5, 7, 3, 4]
    assert resized(text, lambda size: size + 1) == text.replace("<5x?x7x", "<6x?x8x").replace("<3x", "<4x").replace(
        "[4,", "[5,"
    )


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("tensor<5x7xf32>, tensor<1x7xf32>", ""),
        ("tensor<5xf32> // 5 rows, with room for 6 in tensor<6xf32>", ""),
        ("%c5 = arith.constant 1.0e-05 : f32 tensor<5xf32> #map5", ""),
        ("tensor<6xf32>", "the size 6 of a type is no dimension"),
        ("arith.constant 5.0 : f32", "the number 5.0 may be a size that changes"),
        ("output_shape [5, 7]", "the number 5 may be a size that changes"),
        # The other dimension keeps its size.
        ("dense<7> : tensor<1xi64>", ""),
    ],
)
def test_what_else_a_program_spells(text: str, why: str) -> None:
    assert why_not_resizable(text, {5: 512, 7: 7}, [5, 7]) == why
