func.func @main(%x: tensor<2x3x7x6x5xf32>, %w: tensor<4x3x3x3x3xf32>) -> tensor<2x4x7x6x5xf32> {
  %zero = arith.constant 0.0 : f32
  %padded = tensor.pad %x low[0, 0, 1, 1, 1] high[0, 0, 1, 1, 1] {
  ^bb0(%n: index, %c: index, %d: index, %h: index, %v: index):
    tensor.yield %zero : f32
  } : tensor<2x3x7x6x5xf32> to tensor<2x3x9x8x7xf32>
  %empty = tensor.empty() : tensor<2x4x7x6x5xf32>
  %init = linalg.fill ins(%zero : f32) outs(%empty : tensor<2x4x7x6x5xf32>) -> tensor<2x4x7x6x5xf32>
  %y = linalg.conv_3d_ncdhw_fcdhw {dilations = dense<1> : tensor<3xi64>, strides = dense<1> : tensor<3xi64>}
      ins(%padded, %w : tensor<2x3x9x8x7xf32>, tensor<4x3x3x3x3xf32>)
      outs(%init : tensor<2x4x7x6x5xf32>) -> tensor<2x4x7x6x5xf32>
  return %y : tensor<2x4x7x6x5xf32>
}
