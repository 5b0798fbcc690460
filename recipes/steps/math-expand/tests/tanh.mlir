// A hyperbolic tangent becomes exponentials.
// CHECK-LABEL: func.func @main
// CHECK-NOT: math.tanh
// CHECK: math.exp
// CHECK: arith.divf
// CHECK-NOT: math.tanh
// CHECK: return
func.func @main(%x: f32) -> f32 {
  %0 = math.tanh %x : f32
  return %0 : f32
}
