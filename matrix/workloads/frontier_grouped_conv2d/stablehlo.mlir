func.func @main(%x: tensor<2x6x9x8xf32>, %w: tensor<9x2x3x2xf32>) -> tensor<2x9x7x7xf32> {
  %y = stablehlo.convolution(%x, %w) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1], window = {stride = [1, 1]}
      {batch_group_count = 1 : i64, feature_group_count = 3 : i64}
      : (tensor<2x6x9x8xf32>, tensor<9x2x3x2xf32>) -> tensor<2x9x7x7xf32>
  return %y : tensor<2x9x7x7xf32>
}
