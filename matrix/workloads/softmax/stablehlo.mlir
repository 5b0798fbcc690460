func.func @main(%x: tensor<37x129xf32>) -> tensor<37x129xf32> {
  %lowest = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %largest = stablehlo.reduce(%x init: %lowest) applies stablehlo.maximum across dimensions = [1]
    : (tensor<37x129xf32>, tensor<f32>) -> tensor<37xf32>
  %rows = stablehlo.broadcast_in_dim %largest, dims = [0] : (tensor<37xf32>) -> tensor<37x129xf32>
  %d = stablehlo.subtract %x, %rows : tensor<37x129xf32>
  %e = stablehlo.exponential %d : tensor<37x129xf32>
  %sum = stablehlo.reduce(%e init: %zero) applies stablehlo.add across dimensions = [1]
    : (tensor<37x129xf32>, tensor<f32>) -> tensor<37xf32>
  %sums = stablehlo.broadcast_in_dim %sum, dims = [0] : (tensor<37xf32>) -> tensor<37x129xf32>
  %y = stablehlo.divide %e, %sums : tensor<37x129xf32>
  return %y : tensor<37x129xf32>
}
