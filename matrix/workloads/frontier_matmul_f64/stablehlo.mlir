func.func @main(%x: tensor<11x70xf64>, %w: tensor<70x13xf64>) -> tensor<11x13xf64> {
  %y = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<11x70xf64>, tensor<70x13xf64>) -> tensor<11x13xf64>
  return %y : tensor<11x13xf64>
}
