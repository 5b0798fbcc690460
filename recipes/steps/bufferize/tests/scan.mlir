// tm_tensor next to linalg in one function: both on memrefs afterwards.
// CHECK-LABEL: func.func @main
// CHECK-SAME: (%[[X:.+]]: memref<4x32xf32>) -> memref<4x32xf32>
// CHECK: tm_tensor.scan {{.*}}ins(%[[X]] : memref<4x32xf32>) outs(%[[SUMS:.+]], %[[LAST:.+]] : memref<4x32xf32>, memref<4xf32>)
// CHECK: linalg.exp ins(%[[SUMS]] : memref<4x32xf32>)
// CHECK-NOT: tensor<
// CHECK-DAG: memref.dealloc %[[LAST]]
func.func @main(%x: tensor<4x32xf32>) -> tensor<4x32xf32> {
  %0 = tensor.empty() : tensor<4x32xf32>
  %1 = tensor.empty() : tensor<4xf32>
  %2:2 = tm_tensor.scan dimension(1) inclusive(true) ins(%x : tensor<4x32xf32>) outs(%0, %1 : tensor<4x32xf32>, tensor<4xf32>) {
  ^bb0(%a: f32, %b: f32):
    %s = arith.addf %a, %b : f32
    tm_tensor.yield %s : f32
  } -> tensor<4x32xf32>, tensor<4xf32>
  %3 = tensor.empty() : tensor<4x32xf32>
  %4 = linalg.exp ins(%2#0 : tensor<4x32xf32>) outs(%3 : tensor<4x32xf32>) -> tensor<4x32xf32>
  return %4 : tensor<4x32xf32>
}
