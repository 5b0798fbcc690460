// expm1 and log1p are libm's, because exp - 1 and log(1 + x) lose all digits near 0, also of vectors. What LLVM has stays its own.
// CHECK-LABEL: llvm.func @main
// CHECK: llvm.call @expm1f
// CHECK: llvm.intr.copysign
// CHECK: llvm.intr.fma
// CHECK-COUNT-4: llvm.call @log1pf
// CHECK: llvm.intr.exp({{.*}}) : (vector<4xf32>)
// CHECK-NOT: unrealized_conversion_cast
func.func @main(%x: f32, %y: vector<4xf32>) -> (f32, vector<4xf32>) {
  %0 = math.expm1 %x : f32
  %1 = math.copysign %0, %x : f32
  %2 = math.fma %0, %1, %x : f32
  %3 = math.log1p %y : vector<4xf32>
  %4 = math.exp %3 : vector<4xf32>
  return %2, %4 : f32, vector<4xf32>
}
