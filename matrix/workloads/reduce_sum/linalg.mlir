func.func @main(%x: tensor<5x65543xf32>) -> tensor<5xf32> {
  %zero = arith.constant 0.0 : f32
  %rows = tensor.empty() : tensor<5xf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%rows : tensor<5xf32>) -> tensor<5xf32>
  %y = linalg.reduce {arith.addf}
      ins(%x : tensor<5x65543xf32>) outs(%zeros : tensor<5xf32>) dimensions = [1]
  return %y : tensor<5xf32>
}
