func.func @main(%x: tensor<2x4x5x4xf32>, %w: tensor<4x3x3x2xf32>) -> tensor<2x6x11x9xf32> {
  %apart = stablehlo.reshape %w : (tensor<4x3x3x2xf32>) -> tensor<2x2x3x3x2xf32>
  %turned = stablehlo.transpose %apart, dims = [0, 2, 1, 3, 4] : (tensor<2x2x3x3x2xf32>) -> tensor<2x3x2x3x2xf32>
  %filters = stablehlo.reshape %turned : (tensor<2x3x2x3x2xf32>) -> tensor<6x2x3x2xf32>
  %y = stablehlo.convolution(%x, %filters) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1],
      window = {stride = [1, 1], pad = [[3, 3], [0, 0]], lhs_dilate = [2, 3], rhs_dilate = [2, 1], reverse = [true, true]}
      {batch_group_count = 1 : i64, feature_group_count = 2 : i64}
      : (tensor<2x4x5x4xf32>, tensor<6x2x3x2xf32>) -> tensor<2x6x11x9xf32>
  return %y : tensor<2x6x11x9xf32>
}
