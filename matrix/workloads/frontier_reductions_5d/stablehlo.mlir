func.func @main(%x: tensor<3x4x5x6x7xf32>) -> (tensor<3x5x7xf32>, tensor<3x4x5x6xf32>, tensor<4x6xf32>) {
  %lowest = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %one = stablehlo.constant dense<1.0> : tensor<f32>
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %largest = stablehlo.reduce(%x init: %lowest) applies stablehlo.maximum across dimensions = [1, 3]
      : (tensor<3x4x5x6x7xf32>, tensor<f32>) -> tensor<3x5x7xf32>
  %product = stablehlo.reduce(%x init: %one) applies stablehlo.multiply across dimensions = [4]
      : (tensor<3x4x5x6x7xf32>, tensor<f32>) -> tensor<3x4x5x6xf32>
  %total = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [0, 2, 4]
      : (tensor<3x4x5x6x7xf32>, tensor<f32>) -> tensor<4x6xf32>
  return %largest, %product, %total : tensor<3x5x7xf32>, tensor<3x4x5x6xf32>, tensor<4x6xf32>
}
