// The result is a buffer that the caller owns; the scratch buffer is freed; an argument that is returned is copied.
// CHECK-LABEL: func.func @main
// CHECK-SAME: (%[[A:.+]]: memref<4x8xf32>, %[[B:.+]]: memref<8x4xf32>) -> (memref<4x4xf32>, memref<4x8xf32>)
// CHECK: %[[SCRATCH:.+]] = memref.alloc() {{.*}}: memref<4x4xf32>
// CHECK: linalg.matmul ins(%[[A]], %[[B]] : memref<4x8xf32>, memref<8x4xf32>) outs(%[[SCRATCH]] : memref<4x4xf32>)
// CHECK: %[[RESULT:.+]] = memref.alloc() {{.*}}: memref<4x4xf32>
// CHECK: linalg.transpose ins(%[[SCRATCH]] : memref<4x4xf32>) outs(%[[RESULT]] : memref<4x4xf32>)
// CHECK: %[[COPY:.+]] = memref.alloc
// CHECK: memref.copy %[[A]], %[[COPY]]
// CHECK: memref.dealloc %[[SCRATCH]]
// CHECK: return %[[RESULT]], %[[COPY]]
func.func @main(%a: tensor<4x8xf32>, %b: tensor<8x4xf32>) -> (tensor<4x4xf32>, tensor<4x8xf32>) {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<4x4xf32>
  %0 = linalg.fill ins(%zero : f32) outs(%e : tensor<4x4xf32>) -> tensor<4x4xf32>
  %1 = linalg.matmul ins(%a, %b : tensor<4x8xf32>, tensor<8x4xf32>) outs(%0 : tensor<4x4xf32>) -> tensor<4x4xf32>
  %2 = tensor.empty() : tensor<4x4xf32>
  %3 = linalg.transpose ins(%1 : tensor<4x4xf32>) outs(%2 : tensor<4x4xf32>) permutation = [1, 0]
  return %3, %a : tensor<4x4xf32>, tensor<4x8xf32>
}
