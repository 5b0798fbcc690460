func.func @main(%x: tensor<33x250xi8>, %w: tensor<250x47xi8>) -> tensor<33x47xi32> {
  %zero = arith.constant 0 : i32
  %empty = tensor.empty() : tensor<33x47xi32>
  %init = linalg.fill ins(%zero : i32) outs(%empty : tensor<33x47xi32>) -> tensor<33x47xi32>
  %y = linalg.matmul ins(%x, %w : tensor<33x250xi8>, tensor<250x47xi8>)
                     outs(%init : tensor<33x47xi32>) -> tensor<33x47xi32>
  return %y : tensor<33x47xi32>
}
