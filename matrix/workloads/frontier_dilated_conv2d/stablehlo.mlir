func.func @main(%x: tensor<2x3x11x10xf32>, %w: tensor<5x3x3x2xf32>) -> tensor<2x5x9x9xf32> {
  %y = stablehlo.convolution(%x, %w) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1],
      window = {stride = [1, 1], pad = [[1, 1], [1, 1]], lhs_dilate = [1, 1], rhs_dilate = [2, 3]}
      {batch_group_count = 1 : i64, feature_group_count = 1 : i64}
      : (tensor<2x3x11x10xf32>, tensor<5x3x3x2xf32>) -> tensor<2x5x9x9xf32>
  return %y : tensor<2x5x9x9xf32>
}
