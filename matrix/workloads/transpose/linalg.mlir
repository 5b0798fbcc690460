func.func @main(%x: tensor<4x37x50xf32>) -> tensor<50x4x37xf32> {
  %empty = tensor.empty() : tensor<50x4x37xf32>
  %y = linalg.transpose ins(%x : tensor<4x37x50xf32>) outs(%empty : tensor<50x4x37xf32>) permutation = [2, 0, 1]
  return %y : tensor<50x4x37xf32>
}
