#elem = affine_map<(i, j) -> (i, j)>

// The squares and the running sums begin in the same tensor.empty.
func.func @main(%x: tensor<19x257xf32>) -> tensor<19x257xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %rows = arith.constant 19 : index
  %columns = arith.constant 257 : index
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<19x257xf32>
  %squares = linalg.generic {indexing_maps = [#elem, #elem], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<19x257xf32>) outs(%empty : tensor<19x257xf32>) {
  ^bb0(%xi: f32, %out: f32):
    %square = arith.mulf %xi, %xi : f32
    linalg.yield %square : f32
  } -> tensor<19x257xf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%empty : tensor<19x257xf32>) -> tensor<19x257xf32>
  %y = scf.for %i = %c0 to %rows step %c1 iter_args(%done = %zeros) -> tensor<19x257xf32> {
    %row, %total = scf.for %j = %c0 to %columns step %c1 iter_args(%part = %done, %sum = %zero)
        -> (tensor<19x257xf32>, f32) {
      %square = tensor.extract %squares[%i, %j] : tensor<19x257xf32>
      %next = arith.addf %sum, %square : f32
      %longer = tensor.insert %next into %part[%i, %j] : tensor<19x257xf32>
      scf.yield %longer, %next : tensor<19x257xf32>, f32
    }
    scf.yield %row : tensor<19x257xf32>
  }
  return %y : tensor<19x257xf32>
}
