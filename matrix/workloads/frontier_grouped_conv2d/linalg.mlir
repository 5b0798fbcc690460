func.func @main(%x: tensor<2x6x9x8xf32>, %w: tensor<9x2x3x2xf32>) -> tensor<2x9x7x7xf32> {
  %zero = arith.constant 0.0 : f32
  %groups = tensor.expand_shape %x [[0], [1, 2], [3], [4]] output_shape [2, 3, 2, 9, 8]
    : tensor<2x6x9x8xf32> into tensor<2x3x2x9x8xf32>
  %filters = tensor.expand_shape %w [[0, 1], [2], [3], [4]] output_shape [3, 3, 2, 3, 2]
    : tensor<9x2x3x2xf32> into tensor<3x3x2x3x2xf32>
  %empty = tensor.empty() : tensor<2x3x3x7x7xf32>
  %init = linalg.fill ins(%zero : f32) outs(%empty : tensor<2x3x3x7x7xf32>) -> tensor<2x3x3x7x7xf32>
  %parts = linalg.conv_2d_ngchw_gfchw {dilations = dense<1> : tensor<2xi64>, strides = dense<1> : tensor<2xi64>}
      ins(%groups, %filters : tensor<2x3x2x9x8xf32>, tensor<3x3x2x3x2xf32>)
      outs(%init : tensor<2x3x3x7x7xf32>) -> tensor<2x3x3x7x7xf32>
  %y = tensor.collapse_shape %parts [[0], [1, 2], [3], [4]] : tensor<2x3x3x7x7xf32> into tensor<2x9x7x7xf32>
  return %y : tensor<2x9x7x7xf32>
}
