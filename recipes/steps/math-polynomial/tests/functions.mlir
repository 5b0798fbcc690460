// The function is gone: what is left is arithmetic on its argument.
// CHECK-LABEL: func.func @main
// CHECK-NOT: math.tanh
// CHECK-NOT: math.exp
// CHECK: arith.mulf
// CHECK-NOT: math.tanh
// CHECK-NOT: math.exp
// CHECK: return
func.func @main(%x: f32) -> f32 {
  %0 = math.tanh %x : f32
  %1 = math.exp %0 : f32
  return %1 : f32
}
