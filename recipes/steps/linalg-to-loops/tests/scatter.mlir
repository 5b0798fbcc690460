// Updates are added one after the other, so that indices may repeat.
// CHECK-LABEL: func.func @main
// CHECK-NOT: tm_tensor.
// CHECK: scf.for
// CHECK: memref.load
// CHECK: arith.addf
// CHECK: memref.store
func.func @main(%updates: memref<64xf32>, %indices: memref<64x1xi32>, %into: memref<8xf32>) {
  tm_tensor.scatter {dimension_map = array<i64: 0>} unique_indices(false) ins(%updates, %indices : memref<64xf32>, memref<64x1xi32>) outs(%into : memref<8xf32>) {
  ^bb0(%new: f32, %old: f32):
    %s = arith.addf %old, %new : f32
    tm_tensor.yield %s : f32
  }
  return
}
