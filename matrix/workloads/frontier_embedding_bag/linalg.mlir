#number = affine_map<(b, e, l) -> (b, l)>
#elem = affine_map<(b, e, l) -> (b, e)>

func.func @main(%i: tensor<11x6xi32>, %w: tensor<37x19xf32>) -> tensor<11x19xf32> {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<11x19xf32>
  %init = linalg.fill ins(%zero : f32) outs(%empty : tensor<11x19xf32>) -> tensor<11x19xf32>
  %y = linalg.generic {indexing_maps = [#number, #elem], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%i : tensor<11x6xi32>) outs(%init : tensor<11x19xf32>) {
  ^bb0(%number: i32, %sum: f32):
    %row = arith.index_cast %number : i32 to index
    %column = linalg.index 1 : index
    %element = tensor.extract %w[%row, %column] : tensor<37x19xf32>
    %next = arith.addf %sum, %element : f32
    linalg.yield %next : f32
  } -> tensor<11x19xf32>
  return %y : tensor<11x19xf32>
}
