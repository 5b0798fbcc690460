// A conversion of a type to itself, which torch-mlir writes after each gather, is gone.
// CHECK-LABEL: func.func @main
// CHECK: %[[ROWS:.+]] = "stablehlo.gather"
// CHECK-NOT: stablehlo.convert
// CHECK: return %[[ROWS]]
func.func @main(%table: !torch.vtensor<[10,4],f32>, %rows: !torch.vtensor<[?],si64>) -> !torch.vtensor<[?,4],f32> {
  %axis = torch.constant.int 0
  %0 = torch.aten.index_select %table, %axis, %rows : !torch.vtensor<[10,4],f32>, !torch.int, !torch.vtensor<[?],si64> -> !torch.vtensor<[?,4],f32>
  return %0 : !torch.vtensor<[?,4],f32>
}
