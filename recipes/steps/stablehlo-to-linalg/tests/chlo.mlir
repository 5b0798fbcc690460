// erf is CHLO: it becomes a polynomial in StableHLO first.
// CHECK-LABEL: func.func @main
// CHECK-NOT: chlo.
// CHECK: linalg.generic
// CHECK: arith.mulf
// CHECK-NOT: chlo.
func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
  %0 = chlo.erf %x : tensor<8xf32> -> tensor<8xf32>
  return %0 : tensor<8xf32>
}
