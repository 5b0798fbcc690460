#CSR = #sparse_tensor.encoding<{map = (d0, d1) -> (d0 : dense, d1 : compressed), posWidth = 32, crdWidth = 32}>
func.func @main(%pos: tensor<25xi32>, %crd: tensor<276xi32>, %val: tensor<276xf32>, %x: tensor<40x19xf32>) -> tensor<24x19xf32> {
  %a = sparse_tensor.assemble (%pos, %crd), %val
    : (tensor<25xi32>, tensor<276xi32>), tensor<276xf32> to tensor<24x40xf32, #CSR>
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<24x19xf32>
  %init = linalg.fill ins(%zero : f32) outs(%empty : tensor<24x19xf32>) -> tensor<24x19xf32>
  %y = linalg.matmul ins(%a, %x : tensor<24x40xf32, #CSR>, tensor<40x19xf32>) outs(%init : tensor<24x19xf32>) -> tensor<24x19xf32>
  return %y : tensor<24x19xf32>
}
