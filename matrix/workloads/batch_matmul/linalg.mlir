func.func @main(%x: tensor<5x33x48xf32>, %w: tensor<5x48x31xf32>) -> tensor<5x33x31xf32> {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<5x33x31xf32>
  %init = linalg.fill ins(%zero : f32) outs(%empty : tensor<5x33x31xf32>) -> tensor<5x33x31xf32>
  %y = linalg.batch_matmul ins(%x, %w : tensor<5x33x48xf32>, tensor<5x48x31xf32>)
                           outs(%init : tensor<5x33x31xf32>) -> tensor<5x33x31xf32>
  return %y : tensor<5x33x31xf32>
}
