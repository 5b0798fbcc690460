// tm_tensor next to linalg in one function: both on memrefs afterwards, and no operand is overwritten before it is read.

// The squares and the zero fill share one tensor.empty; each needs a buffer of its own.
// CHECK-LABEL: func.func @main
// CHECK-SAME: (%[[X:.+]]: memref<4x32xf32>) -> memref<4x32xf32>
// CHECK: linalg.square ins(%[[X]] : memref<4x32xf32>) outs(%[[SQUARES:.+]] : memref<4x32xf32>)
// CHECK-NOT: outs(%[[SQUARES]] :
// CHECK: tm_tensor.scan {{.*}}ins(%[[SQUARES]] : memref<4x32xf32>) outs(%[[SUMS:.+]], %[[LAST:.+]] : memref<4x32xf32>, memref<4xf32>)
// CHECK: linalg.exp ins(%[[SUMS]] : memref<4x32xf32>)
// CHECK-NOT: tensor<
// CHECK-DAG: memref.dealloc %[[LAST]]
// CHECK-DAG: memref.dealloc %[[SQUARES]]
func.func @main(%x: tensor<4x32xf32>) -> tensor<4x32xf32> {
  %zero = arith.constant 0.0 : f32
  %0 = tensor.empty() : tensor<4x32xf32>
  %1 = tensor.empty() : tensor<4xf32>
  %2 = linalg.square ins(%x : tensor<4x32xf32>) outs(%0 : tensor<4x32xf32>) -> tensor<4x32xf32>
  %3 = linalg.fill ins(%zero : f32) outs(%0 : tensor<4x32xf32>) -> tensor<4x32xf32>
  %4:2 = tm_tensor.scan dimension(1) inclusive(true) ins(%2 : tensor<4x32xf32>) outs(%3, %1 : tensor<4x32xf32>, tensor<4xf32>) {
  ^bb0(%a: f32, %b: f32):
    %s = arith.addf %a, %b : f32
    tm_tensor.yield %s : f32
  } -> tensor<4x32xf32>, tensor<4xf32>
  %5 = tensor.empty() : tensor<4x32xf32>
  %6 = linalg.exp ins(%4#0 : tensor<4x32xf32>) outs(%5 : tensor<4x32xf32>) -> tensor<4x32xf32>
  return %6 : tensor<4x32xf32>
}

// Sorting overwrites its operand; the caller's own stays as it is.
// CHECK-LABEL: func.func @sort
// CHECK-SAME: (%[[X:.+]]: memref<32xf32>)
// CHECK: memref.copy %[[X]], %[[COPY:.+]] : memref<32xf32> to memref<32xf32>
// CHECK: tm_tensor.sort dimension(0) outs(%[[COPY]] : memref<32xf32>)
// CHECK-NOT: tensor<
func.func @sort(%x: tensor<32xf32>) -> tensor<32xf32> {
  %0 = tm_tensor.sort dimension(0) outs(%x : tensor<32xf32>) {
  ^bb0(%a: f32, %b: f32):
    %less = arith.cmpf ole, %a, %b : f32
    tm_tensor.yield %less : i1
  } -> tensor<32xf32>
  return %0 : tensor<32xf32>
}

// The updates and what they are added to share one tensor.empty.
// CHECK-LABEL: func.func @scatter
// CHECK: linalg.exp {{.*}}outs(%[[UPDATES:.+]] : memref<8xf32>)
// CHECK-NOT: outs(%[[UPDATES]] :
// CHECK: tm_tensor.scatter {{.*}}ins(%[[UPDATES]], %{{.+}} : memref<8xf32>, memref<8x1xi32>) outs(%{{.+}} : memref<8xf32>)
// CHECK-NOT: tensor<
func.func @scatter(%x: tensor<8xf32>, %i: tensor<8x1xi32>) -> tensor<8xf32> {
  %zero = arith.constant 0.0 : f32
  %0 = tensor.empty() : tensor<8xf32>
  %1 = linalg.exp ins(%x : tensor<8xf32>) outs(%0 : tensor<8xf32>) -> tensor<8xf32>
  %2 = linalg.fill ins(%zero : f32) outs(%0 : tensor<8xf32>) -> tensor<8xf32>
  %3 = tm_tensor.scatter {dimension_map = array<i64: 0>} unique_indices(false)
      ins(%1, %i : tensor<8xf32>, tensor<8x1xi32>) outs(%2 : tensor<8xf32>) {
  ^bb0(%a: f32, %b: f32):
    %s = arith.addf %a, %b : f32
    tm_tensor.yield %s : f32
  } -> tensor<8xf32>
  return %3 : tensor<8xf32>
}
