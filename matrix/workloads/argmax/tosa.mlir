func.func @main(%x: tensor<45x133xf32>) -> tensor<45xi32> {
  %y = tosa.argmax %x {axis = 1 : i32} : (tensor<45x133xf32>) -> tensor<45xi32>
  return %y : tensor<45xi32>
}
