#row = affine_map<(b, j) -> (b, j)>
#bias = affine_map<(b, j) -> (j)>

func.func @main(%x: tensor<7x60xf32>, %w1: tensor<60x100xf32>, %b1: tensor<100xf32>,
                %w2: tensor<100x10xf32>, %b2: tensor<10xf32>) -> tensor<7x10xf32> {
  %zero = arith.constant 0.0 : f32

  %hidden_empty = tensor.empty() : tensor<7x100xf32>
  %hidden_init = linalg.fill ins(%zero : f32) outs(%hidden_empty : tensor<7x100xf32>) -> tensor<7x100xf32>
  %product = linalg.matmul ins(%x, %w1 : tensor<7x60xf32>, tensor<60x100xf32>)
                           outs(%hidden_init : tensor<7x100xf32>) -> tensor<7x100xf32>
  %hidden = linalg.generic {indexing_maps = [#row, #bias, #row], iterator_types = ["parallel", "parallel"]}
      ins(%product, %b1 : tensor<7x100xf32>, tensor<100xf32>) outs(%hidden_empty : tensor<7x100xf32>) {
  ^bb0(%p: f32, %b: f32, %out: f32):
    %sum = arith.addf %p, %b : f32
    %relu = arith.maximumf %sum, %zero : f32
    linalg.yield %relu : f32
  } -> tensor<7x100xf32>

  %empty = tensor.empty() : tensor<7x10xf32>
  %init = linalg.broadcast ins(%b2 : tensor<10xf32>) outs(%empty : tensor<7x10xf32>) dimensions = [0]
  %y = linalg.matmul ins(%hidden, %w2 : tensor<7x100xf32>, tensor<100x10xf32>)
                     outs(%init : tensor<7x10xf32>) -> tensor<7x10xf32>
  return %y : tensor<7x10xf32>
}
