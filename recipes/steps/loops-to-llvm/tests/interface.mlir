// The result's descriptor comes first in the C interface; memory comes from the caller's allocator; math as intrinsics, which LLVM makes calls to libm.
// CHECK: llvm.func @_mlir_memref_to_llvm_alloc(i64) -> !llvm.ptr
// CHECK-LABEL: llvm.func @main
// CHECK: llvm.call @_mlir_memref_to_llvm_alloc
// CHECK: llvm.intr.tanh
// CHECK: llvm.intr.exp
// CHECK-LABEL: llvm.func @_mlir_ciface_main
// CHECK-SAME: (%[[RESULT:.+]]: !llvm.ptr, %[[X:.+]]: !llvm.ptr)
// CHECK-NOT: unrealized_conversion_cast
func.func @main(%x: memref<8xf32>) -> memref<8xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c8 = arith.constant 8 : index
  %out = memref.alloc() : memref<8xf32>
  scf.for %i = %c0 to %c8 step %c1 {
    %0 = memref.load %x[%i] : memref<8xf32>
    %1 = math.tanh %0 : f32
    %2 = math.exp %1 : f32
    memref.store %2, %out[%i] : memref<8xf32>
  }
  return %out : memref<8xf32>
}
