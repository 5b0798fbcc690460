// By a Cholesky factor: A^T A = R^T R and Q = A R^-1. The diagonal of R is positive.
func.func @main(%x: tensor<9x5xf32>) -> (tensor<9x5xf32>, tensor<5x5xf32>) {
  %gram = stablehlo.dot_general %x, %x, contracting_dims = [0] x [0], precision = [HIGHEST, HIGHEST]
      : (tensor<9x5xf32>, tensor<9x5xf32>) -> tensor<5x5xf32>
  %factor = stablehlo.cholesky %gram, lower = false : tensor<5x5xf32>
  %rows = stablehlo.iota dim = 0 : tensor<5x5xi32>
  %columns = stablehlo.iota dim = 1 : tensor<5x5xi32>
  %upper = stablehlo.compare LE, %rows, %columns : (tensor<5x5xi32>, tensor<5x5xi32>) -> tensor<5x5xi1>
  %zero = stablehlo.constant dense<0.0> : tensor<5x5xf32>
  %r = stablehlo.select %upper, %factor, %zero : tensor<5x5xi1>, tensor<5x5xf32>
  %q = "stablehlo.triangular_solve"(%r, %x) <{left_side = false, lower = false, unit_diagonal = false,
      transpose_a = #stablehlo<transpose NO_TRANSPOSE>}> : (tensor<5x5xf32>, tensor<9x5xf32>) -> tensor<9x5xf32>
  return %q, %r : tensor<9x5xf32>, tensor<5x5xf32>
}
