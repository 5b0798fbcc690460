func.func @main(%x: tensor<2x10x15x18xf32>, %w: tensor<10x1x3x3xf32>) -> tensor<2x10x15x18xf32> {
  %zero = arith.constant 0.0 : f32
  %padded = tensor.pad %x low[0, 0, 1, 1] high[0, 0, 1, 1] {
  ^bb0(%n: index, %c: index, %h: index, %v: index):
    tensor.yield %zero : f32
  } : tensor<2x10x15x18xf32> to tensor<2x10x17x20xf32>
  %filter = tensor.collapse_shape %w [[0, 1], [2], [3]] : tensor<10x1x3x3xf32> into tensor<10x3x3xf32>
  %empty = tensor.empty() : tensor<2x10x15x18xf32>
  %init = linalg.fill ins(%zero : f32) outs(%empty : tensor<2x10x15x18xf32>) -> tensor<2x10x15x18xf32>
  %y = linalg.depthwise_conv_2d_nchw_chw {dilations = dense<1> : tensor<2xi64>, strides = dense<1> : tensor<2xi64>}
      ins(%padded, %filter : tensor<2x10x17x20xf32>, tensor<10x3x3xf32>)
      outs(%init : tensor<2x10x15x18xf32>) -> tensor<2x10x15x18xf32>
  return %y : tensor<2x10x15x18xf32>
}
