#id = affine_map<(i) -> (i)>

// Written for all releases from 15 on: the result begins as a constant, since tensor.empty came with 16.
func.func @main(%x: tensor<12xf32>, %p: tensor<12xf32>) -> tensor<12xf32> {
  %init = arith.constant dense<0.0> : tensor<12xf32>
  %y = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel"]}
      ins(%x, %p : tensor<12xf32>, tensor<12xf32>) outs(%init : tensor<12xf32>) {
  ^bb0(%e: f32, %k: f32, %o: f32):
    %r = math.powf %e, %k : f32
    linalg.yield %r : f32
  } -> tensor<12xf32>
  return %y : tensor<12xf32>
}
