// The size of an open dimension, as JAX asks for it, and what it is used for.
// CHECK-LABEL: func.func @main
// CHECK-SAME: (%[[X:.+]]: tensor<?x4xf32>
// CHECK: tensor.dim %[[X]], %c0
// CHECK: linalg.generic
// CHECK: arith.addf
// CHECK-NOT: stablehlo.
func.func @main(%x: tensor<?x4xf32>, %b: tensor<1x4xf32>) -> tensor<?x4xf32> {
  %four = stablehlo.constant dense<4> : tensor<1xi32>
  %0 = stablehlo.get_dimension_size %x, dim = 0 : (tensor<?x4xf32>) -> tensor<i32>
  %1 = stablehlo.reshape %0 : (tensor<i32>) -> tensor<1xi32>
  %2 = stablehlo.concatenate %1, %four, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
  %3 = stablehlo.dynamic_broadcast_in_dim %b, %2, dims = [0, 1] : (tensor<1x4xf32>, tensor<2xi32>) -> tensor<?x4xf32>
  %4 = stablehlo.add %x, %3 : tensor<?x4xf32>
  return %4 : tensor<?x4xf32>
}
