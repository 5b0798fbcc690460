#row = affine_map<(i) -> (i)>

func.func @main(%x: tensor<1001xf32>, %y: tensor<1001xf32>) -> tensor<1001xf32> {
  %a = arith.constant 2.5 : f32
  %empty = tensor.empty() : tensor<1001xf32>
  %z = linalg.generic {indexing_maps = [#row, #row, #row], iterator_types = ["parallel"]}
      ins(%x, %y : tensor<1001xf32>, tensor<1001xf32>) outs(%empty : tensor<1001xf32>) {
  ^bb0(%xi: f32, %yi: f32, %out: f32):
    %scaled = arith.mulf %a, %xi : f32
    %sum = arith.addf %scaled, %yi : f32
    linalg.yield %sum : f32
  } -> tensor<1001xf32>
  return %z : tensor<1001xf32>
}
