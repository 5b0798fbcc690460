func.func @main(%x: tensor<2x3x7x6x5xf32>, %w: tensor<4x3x3x3x3xf32>) -> tensor<2x4x7x6x5xf32> {
  %y = stablehlo.convolution(%x, %w) dim_numbers = [b, f, 0, 1, 2]x[o, i, 0, 1, 2]->[b, f, 0, 1, 2],
      window = {stride = [1, 1, 1], pad = [[1, 1], [1, 1], [1, 1]]}
      {batch_group_count = 1 : i64, feature_group_count = 1 : i64}
      : (tensor<2x3x7x6x5xf32>, tensor<4x3x3x3x3xf32>) -> tensor<2x4x7x6x5xf32>
  return %y : tensor<2x4x7x6x5xf32>
}
