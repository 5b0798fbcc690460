func.func @main(%x: tensor<2x5x17x16xf32>, %w: tensor<8x5x3x3xf32>, %b: tensor<8xf32>) -> tensor<2x8x9x8xf32> {
  %zero = arith.constant 0.0 : f32
  %padded = tensor.pad %x low[0, 0, 1, 1] high[0, 0, 1, 1] {
  ^bb0(%n: index, %c: index, %h: index, %v: index):
    tensor.yield %zero : f32
  } : tensor<2x5x17x16xf32> to tensor<2x5x19x18xf32>
  %empty = tensor.empty() : tensor<2x8x9x8xf32>
  %init = linalg.broadcast ins(%b : tensor<8xf32>) outs(%empty : tensor<2x8x9x8xf32>) dimensions = [0, 2, 3]
  %y = linalg.conv_2d_nchw_fchw {dilations = dense<1> : tensor<2xi64>, strides = dense<2> : tensor<2xi64>}
      ins(%padded, %w : tensor<2x5x19x18xf32>, tensor<8x5x3x3xf32>)
      outs(%init : tensor<2x8x9x8xf32>) -> tensor<2x8x9x8xf32>
  return %y : tensor<2x8x9x8xf32>
}
