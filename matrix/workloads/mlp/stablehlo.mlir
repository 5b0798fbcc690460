func.func @main(%x: tensor<7x60xf32>, %w1: tensor<60x100xf32>, %b1: tensor<100xf32>,
                %w2: tensor<100x10xf32>, %b2: tensor<10xf32>) -> tensor<7x10xf32> {
  %zero = stablehlo.constant dense<0.0> : tensor<7x100xf32>
  %p = stablehlo.dot_general %x, %w1, contracting_dims = [1] x [0]
    : (tensor<7x60xf32>, tensor<60x100xf32>) -> tensor<7x100xf32>
  %b1rows = stablehlo.broadcast_in_dim %b1, dims = [1] : (tensor<100xf32>) -> tensor<7x100xf32>
  %s = stablehlo.add %p, %b1rows : tensor<7x100xf32>
  %hidden = stablehlo.maximum %s, %zero : tensor<7x100xf32>
  %q = stablehlo.dot_general %hidden, %w2, contracting_dims = [1] x [0]
    : (tensor<7x100xf32>, tensor<100x10xf32>) -> tensor<7x10xf32>
  %b2rows = stablehlo.broadcast_in_dim %b2, dims = [1] : (tensor<10xf32>) -> tensor<7x10xf32>
  %y = stablehlo.add %q, %b2rows : tensor<7x10xf32>
  return %y : tensor<7x10xf32>
}
