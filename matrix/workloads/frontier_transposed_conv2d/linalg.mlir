#filter = affine_map<(f, c, k, l) -> (f, c, k, l)>

func.func @main(%x: tensor<2x3x6x5xf32>, %w: tensor<3x4x3x3xf32>) -> tensor<2x4x11x9xf32> {
  %zero = arith.constant 0.0 : f32
  %two = arith.constant 2 : index
  // Zeros between the pixels and around them.
  %spread = tensor.empty() : tensor<2x3x13x11xf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%spread : tensor<2x3x13x11xf32>) -> tensor<2x3x13x11xf32>
  %image = tensor.insert_slice %x into %zeros[0, 0, 1, 1] [2, 3, 6, 5] [1, 1, 2, 2]
      : tensor<2x3x6x5xf32> into tensor<2x3x13x11xf32>
  %turned = tensor.empty() : tensor<4x3x3x3xf32>
  %filters = linalg.generic {indexing_maps = [#filter], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      outs(%turned : tensor<4x3x3x3xf32>) {
  ^bb0(%old: f32):
    %f = linalg.index 0 : index
    %c = linalg.index 1 : index
    %k = linalg.index 2 : index
    %l = linalg.index 3 : index
    %row = arith.subi %two, %k : index
    %column = arith.subi %two, %l : index
    %each = tensor.extract %w[%c, %f, %row, %column] : tensor<3x4x3x3xf32>
    linalg.yield %each : f32
  } -> tensor<4x3x3x3xf32>
  %empty = tensor.empty() : tensor<2x4x11x9xf32>
  %init = linalg.fill ins(%zero : f32) outs(%empty : tensor<2x4x11x9xf32>) -> tensor<2x4x11x9xf32>
  %y = linalg.conv_2d_nchw_fchw {dilations = dense<1> : tensor<2xi64>, strides = dense<1> : tensor<2xi64>}
      ins(%image, %filters : tensor<2x3x13x11xf32>, tensor<4x3x3x3xf32>)
      outs(%init : tensor<2x4x11x9xf32>) -> tensor<2x4x11x9xf32>
  return %y : tensor<2x4x11x9xf32>
}
