func.func @main(%x: tensor<2x6x21x18xf32>) -> tensor<2x6x11x9xf32> {
  %lowest = arith.constant 0xFF800000 : f32
  %padded = tensor.pad %x low[0, 0, 1, 1] high[0, 0, 1, 1] {
  ^bb0(%n: index, %c: index, %h: index, %v: index):
    tensor.yield %lowest : f32
  } : tensor<2x6x21x18xf32> to tensor<2x6x23x20xf32>
  // Only the shape of the window is read.
  %window = tensor.empty() : tensor<3x3xf32>
  %empty = tensor.empty() : tensor<2x6x11x9xf32>
  %init = linalg.fill ins(%lowest : f32) outs(%empty : tensor<2x6x11x9xf32>) -> tensor<2x6x11x9xf32>
  %y = linalg.pooling_nchw_max {dilations = dense<1> : tensor<2xi64>, strides = dense<2> : tensor<2xi64>}
      ins(%padded, %window : tensor<2x6x23x20xf32>, tensor<3x3xf32>)
      outs(%init : tensor<2x6x11x9xf32>) -> tensor<2x6x11x9xf32>
  return %y : tensor<2x6x11x9xf32>
}
