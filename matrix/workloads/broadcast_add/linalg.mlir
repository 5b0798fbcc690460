#x = affine_map<(i, j, k) -> (i, 0, k)>
#b = affine_map<(i, j, k) -> (j, 0)>
#elem = affine_map<(i, j, k) -> (i, j, k)>

func.func @main(%x: tensor<3x1x65xf32>, %b: tensor<17x1xf32>) -> tensor<3x17x65xf32> {
  %empty = tensor.empty() : tensor<3x17x65xf32>
  %y = linalg.generic {indexing_maps = [#x, #b, #elem], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%x, %b : tensor<3x1x65xf32>, tensor<17x1xf32>) outs(%empty : tensor<3x17x65xf32>) {
  ^bb0(%xi: f32, %bi: f32, %out: f32):
    %sum = arith.addf %xi, %bi : f32
    linalg.yield %sum : f32
  } -> tensor<3x17x65xf32>
  return %y : tensor<3x17x65xf32>
}
