"""A downstream catalog of two workloads whose tensors are large: a thin matrix product, and rows of a table."""

from __future__ import annotations

from pathlib import Path

from _synthetic import write

_PRODUCT = """\
func.func @main(%x: tensor<{m}x{k}xf32>, %w: tensor<{k}x{n}xf32>) -> tensor<{m}x{n}xf32> {{
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<{m}x{n}xf32>
  %init = linalg.fill ins(%zero : f32) outs(%empty : tensor<{m}x{n}xf32>) -> tensor<{m}x{n}xf32>
  %y = linalg.matmul ins(%x, %w : tensor<{m}x{k}xf32>, tensor<{k}x{n}xf32>)
                     outs(%init : tensor<{m}x{n}xf32>) -> tensor<{m}x{n}xf32>
  return %y : tensor<{m}x{n}xf32>
}}
"""
_ROWS = """\
#token = affine_map<(s, e) -> (s)>
#elem = affine_map<(s, e) -> (s, e)>
func.func @main(%i: tensor<{s}xi32>, %w: tensor<{v}x{e}xf32>) -> tensor<{s}x{e}xf32> {{
  %empty = tensor.empty() : tensor<{s}x{e}xf32>
  %y = linalg.generic {{indexing_maps = [#token, #elem], iterator_types = ["parallel", "parallel"]}}
      ins(%i : tensor<{s}xi32>) outs(%empty : tensor<{s}x{e}xf32>) {{
  ^bb0(%token: i32, %out: f32):
    %row = arith.index_cast %token : i32 to index
    %column = linalg.index 1 : index
    %element = tensor.extract %w[%row, %column] : tensor<{v}x{e}xf32>
    linalg.yield %element : f32
  }} -> tensor<{s}x{e}xf32>
  return %y : tensor<{s}x{e}xf32>
}}
"""


def add_product(catalog: Path, name: str, m: int, k: int, n: int) -> None:
    """Add ``x @ w``, whose output of m * n f32 elements is the largest tensor."""
    home = catalog / "matrix/workloads" / name
    text = (
        f"description: d\ndims: {{M: {m}, K: {k}, N: {n}}}\ngolden: computed\ninputs:\n"
        "  x: {shape: [M, K], dtype: f32, formula: 'uniform(-1, 1)', seed: 1}\n"
        "  w: {shape: [K, N], dtype: f32, formula: 'uniform(-1, 1)', seed: 2}\n"
        "outputs: {y: {shape: [M, N], dtype: f32}}\n"
    )
    write(home / "workload.yaml", text)
    write(home / "reference.py", "def reference(x, w):\n    return x @ w\n")
    write(home / "linalg.mlir", _PRODUCT.format(m=m, k=k, n=n))
    layer = "{atol: 4 * K * eps(f32), rtol: eps(f32), rationale: r}"
    write(catalog / f"golden/{name}/tolerances.yaml", f"layers: [{layer}]\n")


def add_rows(catalog: Path, name: str, rows: int, columns: int) -> None:
    """Add a lookup of 64 rows of a table, whose rows * columns f32 elements are the largest tensor."""
    home = catalog / "matrix/workloads" / name
    text = (
        f"description: d\ndims: {{S: 64, V: {rows}, E: {columns}}}\ngolden: computed\ninputs:\n"
        "  i: {shape: [S], dtype: i32, formula: 'integers(0, V)', seed: 1}\n"
        "  w: {shape: [V, E], dtype: f32, formula: 'uniform(-1, 1)', seed: 2}\n"
        "outputs: {y: {shape: [S, E], dtype: f32}}\n"
    )
    write(home / "workload.yaml", text)
    write(home / "reference.py", "def reference(i, w):\n    return w[i]\n")
    write(home / "linalg.mlir", _ROWS.format(s=64, v=rows, e=columns))
    write(catalog / f"golden/{name}/tolerances.yaml", "layers: [{atol: 0, rtol: 0, rationale: r}]\n")
