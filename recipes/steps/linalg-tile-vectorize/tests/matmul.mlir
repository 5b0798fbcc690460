// A block of 8 x 16 is read once, accumulated over the whole contracted dimension, written once.
// CHECK-LABEL: func.func @main
// CHECK-NOT: linalg.matmul
// CHECK: scf.for
// CHECK: scf.for
// CHECK: %[[C:.+]] = vector.transfer_read {{.*}}vector<8x16xf32>
// CHECK: scf.for {{.*}}iter_args({{.*}} = %[[C]]) -> (vector<8x16xf32>)
// CHECK: vector.contract {{.*}}vector<8x1xf32>, vector<1x16xf32> into vector<8x16xf32>
// CHECK: vector.transfer_write {{.*}}vector<8x16xf32>
// CHECK-NOT: transform.
func.func @main(%a: tensor<64x96xf32>, %b: tensor<96x80xf32>, %c: tensor<64x80xf32>) -> tensor<64x80xf32> {
  %0 = linalg.matmul ins(%a, %b : tensor<64x96xf32>, tensor<96x80xf32>) outs(%c : tensor<64x80xf32>) -> tensor<64x80xf32>
  return %0 : tensor<64x80xf32>
}
