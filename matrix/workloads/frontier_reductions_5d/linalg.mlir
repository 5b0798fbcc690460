func.func @main(%x: tensor<3x4x5x6x7xf32>) -> (tensor<3x5x7xf32>, tensor<3x4x5x6xf32>, tensor<4x6xf32>) {
  %lowest = arith.constant 0xFF800000 : f32
  %one = arith.constant 1.0 : f32
  %zero = arith.constant 0.0 : f32
  %empty1 = tensor.empty() : tensor<3x5x7xf32>
  %empty2 = tensor.empty() : tensor<3x4x5x6xf32>
  %empty3 = tensor.empty() : tensor<4x6xf32>
  %init1 = linalg.fill ins(%lowest : f32) outs(%empty1 : tensor<3x5x7xf32>) -> tensor<3x5x7xf32>
  %init2 = linalg.fill ins(%one : f32) outs(%empty2 : tensor<3x4x5x6xf32>) -> tensor<3x4x5x6xf32>
  %init3 = linalg.fill ins(%zero : f32) outs(%empty3 : tensor<4x6xf32>) -> tensor<4x6xf32>
  %largest = linalg.reduce {arith.maximumf}
      ins(%x : tensor<3x4x5x6x7xf32>) outs(%init1 : tensor<3x5x7xf32>) dimensions = [1, 3]
  %product = linalg.reduce {arith.mulf}
      ins(%x : tensor<3x4x5x6x7xf32>) outs(%init2 : tensor<3x4x5x6xf32>) dimensions = [4]
  %total = linalg.reduce {arith.addf}
      ins(%x : tensor<3x4x5x6x7xf32>) outs(%init3 : tensor<4x6xf32>) dimensions = [0, 2, 4]
  return %largest, %product, %total : tensor<3x5x7xf32>, tensor<3x4x5x6xf32>, tensor<4x6xf32>
}
