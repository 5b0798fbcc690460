func.func @main(%a: tensor<64xi16>, %b: tensor<64xi16>) -> tensor<i32> {
  %zero = arith.constant 0 : i32
  %empty = tensor.empty() : tensor<i32>
  %init = linalg.fill ins(%zero : i32) outs(%empty : tensor<i32>) -> tensor<i32>
  %y = linalg.dot ins(%a, %b : tensor<64xi16>, tensor<64xi16>) outs(%init : tensor<i32>) -> tensor<i32>
  return %y : tensor<i32>
}
