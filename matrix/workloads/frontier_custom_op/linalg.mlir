#map = affine_map<(i, j) -> (i, j)>

func.func @main(%x: tensor<9x13xf32>) -> tensor<9x13xf32> {
  %one = arith.constant 1.0 : f32
  %factor = arith.constant -1.7 : f32
  %empty = tensor.empty() : tensor<9x13xf32>
  %y = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<9x13xf32>) outs(%empty : tensor<9x13xf32>) {
  ^bb0(%a: f32, %out: f32):
    %scaled = arith.mulf %a, %factor : f32
    %e = math.exp %scaled : f32
    %sum = arith.addf %e, %one : f32
    %each = arith.divf %a, %sum : f32
    linalg.yield %each : f32
  } -> tensor<9x13xf32>
  return %y : tensor<9x13xf32>
}
