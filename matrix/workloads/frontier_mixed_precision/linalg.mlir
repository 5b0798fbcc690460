#map = affine_map<(i, j) -> (i, j)>

func.func @main(%x: tensor<13x24xf16>, %w1: tensor<24x21xf16>, %w2: tensor<21x11xf16>) -> tensor<13x11xf32> {
  %zero = arith.constant 0.0 : f32
  %empty1 = tensor.empty() : tensor<13x21xf32>
  %init1 = linalg.fill ins(%zero : f32) outs(%empty1 : tensor<13x21xf32>) -> tensor<13x21xf32>
  %products = linalg.matmul ins(%x, %w1 : tensor<13x24xf16>, tensor<24x21xf16>) outs(%init1 : tensor<13x21xf32>) -> tensor<13x21xf32>
  %narrow = tensor.empty() : tensor<13x21xbf16>
  %hidden = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]}
      ins(%products : tensor<13x21xf32>) outs(%narrow : tensor<13x21xbf16>) {
  ^bb0(%p: f32, %out: bf16):
    %rounded = arith.truncf %p : f32 to bf16
    linalg.yield %rounded : bf16
  } -> tensor<13x21xbf16>
  %empty2 = tensor.empty() : tensor<13x11xf32>
  %init2 = linalg.fill ins(%zero : f32) outs(%empty2 : tensor<13x11xf32>) -> tensor<13x11xf32>
  %y = linalg.matmul ins(%hidden, %w2 : tensor<13x21xbf16>, tensor<21x11xf16>) outs(%init2 : tensor<13x11xf32>) -> tensor<13x11xf32>
  return %y : tensor<13x11xf32>
}
