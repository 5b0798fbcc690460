func.func @main(%x: tensor<2x3x11x10xf32>, %w: tensor<5x3x3x2xf32>) -> tensor<2x5x9x9xf32> {
  %zero = "tosa.const"() <{values = dense<0.0> : tensor<1xf32>}> : () -> tensor<1xf32>
  %bias = "tosa.const"() <{values = dense<0.0> : tensor<5xf32>}> : () -> tensor<5xf32>
  %images = tosa.transpose %x {perms = array<i32: 0, 2, 3, 1>} : (tensor<2x3x11x10xf32>) -> tensor<2x11x10x3xf32>
  %filters = tosa.transpose %w {perms = array<i32: 0, 2, 3, 1>} : (tensor<5x3x3x2xf32>) -> tensor<5x3x2x3xf32>
  %sums = tosa.conv2d %images, %filters, %bias, %zero, %zero
      {acc_type = f32, pad = array<i64: 1, 1, 1, 1>, stride = array<i64: 1, 1>, dilation = array<i64: 2, 3>}
      : (tensor<2x11x10x3xf32>, tensor<5x3x2x3xf32>, tensor<5xf32>, tensor<1xf32>, tensor<1xf32>) -> tensor<2x9x9x5xf32>
  %y = tosa.transpose %sums {perms = array<i32: 0, 3, 1, 2>} : (tensor<2x9x9x5xf32>) -> tensor<2x5x9x9xf32>
  return %y : tensor<2x5x9x9xf32>
}
