func.func @main(%x: tensor<2x3x7x6x5xf32>, %w: tensor<4x3x3x3x3xf32>) -> tensor<2x4x7x6x5xf32> {
  %zero = "tosa.const"() <{values = dense<0.0> : tensor<1xf32>}> : () -> tensor<1xf32>
  %bias = "tosa.const"() <{values = dense<0.0> : tensor<4xf32>}> : () -> tensor<4xf32>
  %volumes = tosa.transpose %x {perms = array<i32: 0, 2, 3, 4, 1>} : (tensor<2x3x7x6x5xf32>) -> tensor<2x7x6x5x3xf32>
  %filters = tosa.transpose %w {perms = array<i32: 0, 2, 3, 4, 1>} : (tensor<4x3x3x3x3xf32>) -> tensor<4x3x3x3x3xf32>
  %sums = tosa.conv3d %volumes, %filters, %bias, %zero, %zero
      {acc_type = f32, pad = array<i64: 1, 1, 1, 1, 1, 1>, stride = array<i64: 1, 1, 1>, dilation = array<i64: 1, 1, 1>}
      : (tensor<2x7x6x5x3xf32>, tensor<4x3x3x3x3xf32>, tensor<4xf32>, tensor<1xf32>, tensor<1xf32>) -> tensor<2x7x6x5x4xf32>
  %y = tosa.transpose %sums {perms = array<i32: 0, 4, 1, 2, 3>} : (tensor<2x7x6x5x4xf32>) -> tensor<2x4x7x6x5xf32>
  return %y : tensor<2x4x7x6x5xf32>
}
