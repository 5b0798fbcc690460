func.func @main(%x: tensor<2x3x6x5xf32>, %w: tensor<3x4x3x3xf32>) -> tensor<2x4x11x9xf32> {
  %zero = "tosa.const"() <{values = dense<0.0> : tensor<1xf32>}> : () -> tensor<1xf32>
  %bias = "tosa.const"() <{values = dense<0.0> : tensor<4xf32>}> : () -> tensor<4xf32>
  %images = tosa.transpose %x {perms = array<i32: 0, 2, 3, 1>} : (tensor<2x3x6x5xf32>) -> tensor<2x6x5x3xf32>
  %filters = tosa.transpose %w {perms = array<i32: 1, 2, 3, 0>} : (tensor<3x4x3x3xf32>) -> tensor<4x3x3x3xf32>
  %sums = tosa.transpose_conv2d %images, %filters, %bias, %zero, %zero
      {acc_type = f32, out_pad = array<i64: -1, -1, -1, -1>, stride = array<i64: 2, 2>}
      : (tensor<2x6x5x3xf32>, tensor<4x3x3x3xf32>, tensor<4xf32>, tensor<1xf32>, tensor<1xf32>) -> tensor<2x11x9x4xf32>
  %y = tosa.transpose %sums {perms = array<i32: 0, 3, 1, 2>} : (tensor<2x11x9x4xf32>) -> tensor<2x4x11x9xf32>
  return %y : tensor<2x4x11x9xf32>
}
