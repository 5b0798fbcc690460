func.func @main(%x: tensor<65x130xf32>, %w: tensor<130x97xf32>) -> tensor<65x97xf32> {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<65x97xf32>
  %init = linalg.fill ins(%zero : f32) outs(%empty : tensor<65x97xf32>) -> tensor<65x97xf32>
  %y = linalg.matmul ins(%x, %w : tensor<65x130xf32>, tensor<130x97xf32>)
                     outs(%init : tensor<65x97xf32>) -> tensor<65x97xf32>
  return %y : tensor<65x97xf32>
}
