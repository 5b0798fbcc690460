#elem = affine_map<(i, j) -> (i, j)>
#row = affine_map<(i, j) -> (i)>

func.func @main(%x: tensor<37x129xf32>) -> tensor<37x129xf32> {
  %zero = arith.constant 0.0 : f32
  %lowest = arith.constant 0xFF800000 : f32
  %rows = tensor.empty() : tensor<37xf32>
  %full = tensor.empty() : tensor<37x129xf32>

  %max0 = linalg.fill ins(%lowest : f32) outs(%rows : tensor<37xf32>) -> tensor<37xf32>
  %max = linalg.reduce {arith.maximumf}
      ins(%x : tensor<37x129xf32>) outs(%max0 : tensor<37xf32>) dimensions = [1]
  %e = linalg.generic {indexing_maps = [#elem, #row, #elem], iterator_types = ["parallel", "parallel"]}
      ins(%x, %max : tensor<37x129xf32>, tensor<37xf32>) outs(%full : tensor<37x129xf32>) {
  ^bb0(%xi: f32, %mi: f32, %out: f32):
    %d = arith.subf %xi, %mi : f32
    %ed = math.exp %d : f32
    linalg.yield %ed : f32
  } -> tensor<37x129xf32>
  %sum0 = linalg.fill ins(%zero : f32) outs(%rows : tensor<37xf32>) -> tensor<37xf32>
  %sum = linalg.reduce {arith.addf}
      ins(%e : tensor<37x129xf32>) outs(%sum0 : tensor<37xf32>) dimensions = [1]
  %y = linalg.generic {indexing_maps = [#elem, #row, #elem], iterator_types = ["parallel", "parallel"]}
      ins(%e, %sum : tensor<37x129xf32>, tensor<37xf32>) outs(%full : tensor<37x129xf32>) {
  ^bb0(%ei: f32, %si: f32, %out: f32):
    %q = arith.divf %ei, %si : f32
    linalg.yield %q : f32
  } -> tensor<37x129xf32>
  return %y : tensor<37x129xf32>
}
