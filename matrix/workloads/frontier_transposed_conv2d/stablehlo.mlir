func.func @main(%x: tensor<2x3x6x5xf32>, %w: tensor<3x4x3x3xf32>) -> tensor<2x4x11x9xf32> {
  %y = stablehlo.convolution(%x, %w) dim_numbers = [b, f, 0, 1]x[i, o, 0, 1]->[b, f, 0, 1],
      window = {stride = [1, 1], pad = [[1, 1], [1, 1]], lhs_dilate = [2, 2], rhs_dilate = [1, 1], reverse = [true, true]}
      {batch_group_count = 1 : i64, feature_group_count = 1 : i64}
      : (tensor<2x3x6x5xf32>, tensor<3x4x3x3xf32>) -> tensor<2x4x11x9xf32>
  return %y : tensor<2x4x11x9xf32>
}
