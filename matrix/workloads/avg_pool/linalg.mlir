#map = affine_map<(n, c, h, w) -> (n, c, h, w)>

func.func @main(%x: tensor<2x6x21x18xf32>) -> tensor<2x6x10x8xf32> {
  %zero = arith.constant 0.0 : f32
  %nine = arith.constant 9.0 : f32
  // Only the shape of the window is read.
  %window = tensor.empty() : tensor<3x3xf32>
  %empty = tensor.empty() : tensor<2x6x10x8xf32>
  %init = linalg.fill ins(%zero : f32) outs(%empty : tensor<2x6x10x8xf32>) -> tensor<2x6x10x8xf32>
  %sum = linalg.pooling_nchw_sum {dilations = dense<1> : tensor<2xi64>, strides = dense<2> : tensor<2xi64>}
      ins(%x, %window : tensor<2x6x21x18xf32>, tensor<3x3xf32>)
      outs(%init : tensor<2x6x10x8xf32>) -> tensor<2x6x10x8xf32>
  %y = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%sum : tensor<2x6x10x8xf32>) outs(%empty : tensor<2x6x10x8xf32>) {
  ^bb0(%s: f32, %out: f32):
    %mean = arith.divf %s, %nine : f32
    linalg.yield %mean : f32
  } -> tensor<2x6x10x8xf32>
  return %y : tensor<2x6x10x8xf32>
}
