// Rows and columns are divided among threads; the sum over k stays in one.
// CHECK-LABEL: llvm.func @main
// CHECK: omp.parallel
// CHECK: omp.wsloop
// CHECK: omp.loop_nest (%{{.*}}, %{{.*}}) : i64
// CHECK-NOT: omp.wsloop
// CHECK: llvm.fmul
// CHECK: llvm.fadd
// CHECK-NOT: reduction
// CHECK: omp.terminator
// CHECK: llvm.func @_mlir_ciface_main
func.func @main(%x: memref<5x7xf32>, %w: memref<7x3xf32>, %y: memref<5x3xf32>) {
  linalg.matmul ins(%x, %w : memref<5x7xf32>, memref<7x3xf32>) outs(%y : memref<5x3xf32>)
  return
}
