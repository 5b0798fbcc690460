// CHECK-LABEL: func.func @main
// CHECK-SAME: (%[[X:.+]]: !torch.vtensor<[8,33],f32>)
// CHECK-NOT: torch.operator
// CHECK: torch.aten.max.dim %[[X]]
// CHECK: torch.aten.exp
// CHECK: torch.aten.sum.dim_IntList
// CHECK-NOT: torch.operator
func.func @main(%x: !torch.vtensor<[8,33],f32>) -> !torch.vtensor<[8,33],f32> attributes {torch.onnx_meta.ir_version = 10 : si64, torch.onnx_meta.opset_version = 21 : si64} {
  %0 = torch.operator "onnx.Softmax"(%x) {torch.onnx.axis = -1 : si64} : (!torch.vtensor<[8,33],f32>) -> !torch.vtensor<[8,33],f32>
  return %0 : !torch.vtensor<[8,33],f32>
}
