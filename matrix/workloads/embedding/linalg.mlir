#token = affine_map<(b, s, e) -> (b, s)>
#elem = affine_map<(b, s, e) -> (b, s, e)>

func.func @main(%i: tensor<4x33xi32>, %w: tensor<1000x50xf32>) -> tensor<4x33x50xf32> {
  %empty = tensor.empty() : tensor<4x33x50xf32>
  %y = linalg.generic {indexing_maps = [#token, #elem], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%i : tensor<4x33xi32>) outs(%empty : tensor<4x33x50xf32>) {
  ^bb0(%token: i32, %out: f32):
    %row = arith.index_cast %token : i32 to index
    %column = linalg.index 2 : index
    %element = tensor.extract %w[%row, %column] : tensor<1000x50xf32>
    linalg.yield %element : f32
  } -> tensor<4x33x50xf32>
  return %y : tensor<4x33x50xf32>
}
