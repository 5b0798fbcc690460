// TOSA multiplies batches of matrices: a dimension of one is put in front and taken away.
// CHECK-LABEL: func.func @main
// CHECK-SAME: tensor<4x8xf32>
// CHECK: tosa.reshape
// CHECK: tosa.matmul {{.*}}(tensor<1x4x8xf32>, tensor<1x8x16xf32>
// CHECK: tosa.reshape
func.func @main(%a: !torch.vtensor<[4,8],f32>, %b: !torch.vtensor<[8,16],f32>) -> !torch.vtensor<[4,16],f32> {
  %0 = torch.aten.mm %a, %b : !torch.vtensor<[4,8],f32>, !torch.vtensor<[8,16],f32> -> !torch.vtensor<[4,16],f32>
  return %0 : !torch.vtensor<[4,16],f32>
}
