// Whole tiles are vectors also where nothing is known of the sizes; what is left of a row stays an operator for the loops.
// CHECK-LABEL: func.func @main
// CHECK: scf.for
// CHECK: math.exp {{.*}} : vector<16xf32>
// CHECK: scf.for
// CHECK: linalg.exp
func.func @main(%x: tensor<?x?xf32>, %e: tensor<?x?xf32>) -> tensor<?x?xf32> {
  %0 = linalg.exp ins(%x : tensor<?x?xf32>) outs(%e : tensor<?x?xf32>) -> tensor<?x?xf32>
  return %0 : tensor<?x?xf32>
}
