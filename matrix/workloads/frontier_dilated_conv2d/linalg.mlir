func.func @main(%x: tensor<2x3x11x10xf32>, %w: tensor<5x3x3x2xf32>) -> tensor<2x5x9x9xf32> {
  %zero = arith.constant 0.0 : f32
  %padded = tensor.pad %x low[0, 0, 1, 1] high[0, 0, 1, 1] {
  ^bb0(%n: index, %c: index, %h: index, %v: index):
    tensor.yield %zero : f32
  } : tensor<2x3x11x10xf32> to tensor<2x3x13x12xf32>
  %empty = tensor.empty() : tensor<2x5x9x9xf32>
  %init = linalg.fill ins(%zero : f32) outs(%empty : tensor<2x5x9x9xf32>) -> tensor<2x5x9x9xf32>
  %y = linalg.conv_2d_nchw_fchw {dilations = dense<[2, 3]> : tensor<2xi64>, strides = dense<1> : tensor<2xi64>}
      ins(%padded, %w : tensor<2x3x13x12xf32>, tensor<5x3x3x2xf32>)
      outs(%init : tensor<2x5x9x9xf32>) -> tensor<2x5x9x9xf32>
  return %y : tensor<2x5x9x9xf32>
}
