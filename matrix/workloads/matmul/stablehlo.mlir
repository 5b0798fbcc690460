func.func @main(%x: tensor<65x130xf32>, %w: tensor<130x97xf32>) -> tensor<65x97xf32> {
  %y = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
    : (tensor<65x130xf32>, tensor<130x97xf32>) -> tensor<65x97xf32>
  return %y : tensor<65x97xf32>
}
