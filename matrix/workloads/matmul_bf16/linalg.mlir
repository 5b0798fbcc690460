func.func @main(%x: tensor<33x250xbf16>, %w: tensor<250x47xbf16>) -> tensor<33x47xf32> {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<33x47xf32>
  %init = linalg.fill ins(%zero : f32) outs(%empty : tensor<33x47xf32>) -> tensor<33x47xf32>
  %y = linalg.matmul ins(%x, %w : tensor<33x250xbf16>, tensor<250x47xbf16>)
                     outs(%init : tensor<33x47xf32>) -> tensor<33x47xf32>
  return %y : tensor<33x47xf32>
}
