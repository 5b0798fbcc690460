#backwards = affine_map<(i, j) -> (i, 128 - j)>
#elem = affine_map<(i, j) -> (i, j)>

func.func @main(%x: tensor<37x129xf32>) -> tensor<37x129xf32> {
  %empty = tensor.empty() : tensor<37x129xf32>
  %y = linalg.generic {indexing_maps = [#backwards, #elem], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<37x129xf32>) outs(%empty : tensor<37x129xf32>) {
  ^bb0(%xi: f32, %out: f32):
    linalg.yield %xi : f32
  } -> tensor<37x129xf32>
  return %y : tensor<37x129xf32>
}
