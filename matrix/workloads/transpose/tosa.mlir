func.func @main(%x: tensor<4x37x50xf32>) -> tensor<50x4x37xf32> {
  %y = tosa.transpose %x {perms = array<i32: 2, 0, 1>} : (tensor<4x37x50xf32>) -> tensor<50x4x37xf32>
  return %y : tensor<50x4x37xf32>
}
