// A loop may give another buffer than the one that it took; beside it goes whether the loop owns it.

// CHECK-LABEL: func.func @another
// CHECK: %{{.+}}:2 = scf.for
// CHECK: scf.yield
func.func @another(%x: tensor<4xf32>, %n: index) -> tensor<4xf32> {
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %0 = scf.for %i = %zero to %n step %one iter_args(%before = %x) -> (tensor<4xf32>) {
    %empty = tensor.empty() : tensor<4xf32>
    %next = linalg.map {math.exp} ins(%before : tensor<4xf32>) outs(%empty : tensor<4xf32>)
    scf.yield %next : tensor<4xf32>
  }
  return %0 : tensor<4xf32>
}
