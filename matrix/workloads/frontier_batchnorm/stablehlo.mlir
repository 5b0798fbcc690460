func.func @main(%x: tensor<3x5x4x7xf32>, %mean: tensor<5xf32>, %variance: tensor<5xf32>, %w: tensor<5xf32>, %b: tensor<5xf32>)
    -> tensor<3x5x4x7xf32> {
  %y = "stablehlo.batch_norm_inference"(%x, %w, %b, %mean, %variance) <{epsilon = 1.0e-5 : f32, feature_index = 1 : i64}>
      : (tensor<3x5x4x7xf32>, tensor<5xf32>, tensor<5xf32>, tensor<5xf32>, tensor<5xf32>) -> tensor<3x5x4x7xf32>
  return %y : tensor<3x5x4x7xf32>
}
