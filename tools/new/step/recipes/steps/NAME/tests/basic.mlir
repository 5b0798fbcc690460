// The IR after the step, by FileCheck.
// CHECK-LABEL: func.func @twice
// CHECK: arith.addf
// CHECK-NOT: arith.addf
module {
  func.func @twice(%x: f32) -> (f32, f32) {
    %a = arith.addf %x, %x : f32
    %b = arith.addf %x, %x : f32
    return %a, %b : f32, f32
  }
}
