func.func @main(%x: tensor<4x37x50xf32>) -> tensor<50x4x37xf32> {
  %y = stablehlo.transpose %x, dims = [2, 0, 1] : (tensor<4x37x50xf32>) -> tensor<50x4x37xf32>
  return %y : tensor<50x4x37xf32>
}
