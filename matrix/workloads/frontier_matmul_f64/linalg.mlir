func.func @main(%x: tensor<11x70xf64>, %w: tensor<70x13xf64>) -> tensor<11x13xf64> {
  %zero = arith.constant 0.0 : f64
  %empty = tensor.empty() : tensor<11x13xf64>
  %init = linalg.fill ins(%zero : f64) outs(%empty : tensor<11x13xf64>) -> tensor<11x13xf64>
  %y = linalg.matmul ins(%x, %w : tensor<11x70xf64>, tensor<70x13xf64>) outs(%init : tensor<11x13xf64>) -> tensor<11x13xf64>
  return %y : tensor<11x13xf64>
}
