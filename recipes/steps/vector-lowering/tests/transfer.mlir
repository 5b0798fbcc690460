// CHECK-LABEL: func.func @main
// CHECK-NOT: vector<2x8xf32>,
// CHECK: vector.transfer_read {{.*}}vector<8xf32>
// CHECK: vector.transfer_read {{.*}}vector<8xf32>
// CHECK: vector.reduction <add>
// CHECK-NOT: vector.multi_reduction
func.func @main(%m: memref<4x16xf32>, %acc: vector<2xf32>) -> vector<2xf32> {
  %zero = arith.constant 0.0 : f32
  %c0 = arith.constant 0 : index
  %0 = vector.transfer_read %m[%c0, %c0], %zero {in_bounds = [true, true]} : memref<4x16xf32>, vector<2x8xf32>
  %1 = vector.multi_reduction <add>, %0, %acc [1] : vector<2x8xf32> to vector<2xf32>
  return %1 : vector<2xf32>
}
