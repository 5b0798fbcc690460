// A loop over rows, and one over the stored elements of a row; nothing visits all columns.
// CHECK-LABEL: func.func @main
// CHECK: scf.for
// CHECK: %[[BEGIN:.*]] = memref.load %arg0[
// CHECK: %[[END:.*]] = memref.load %arg0[
// CHECK: scf.for
// CHECK: arith.mulf
// CHECK: arith.addf
// CHECK-NOT: sparse_tensor.
#CSR = #sparse_tensor.encoding<{map = (d0, d1) -> (d0 : dense, d1 : compressed), posWidth = 32, crdWidth = 32}>
func.func @main(%pos: tensor<5xi32>, %crd: tensor<6xi32>, %val: tensor<6xf32>, %x: tensor<8xf32>, %init: tensor<4xf32>)
    -> tensor<4xf32> {
  %a = sparse_tensor.assemble (%pos, %crd), %val
    : (tensor<5xi32>, tensor<6xi32>), tensor<6xf32> to tensor<4x8xf32, #CSR>
  %y = linalg.matvec ins(%a, %x : tensor<4x8xf32, #CSR>, tensor<8xf32>) outs(%init : tensor<4xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}
