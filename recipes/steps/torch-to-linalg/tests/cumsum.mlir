// A scan has no operator in linalg: torch-mlir keeps it as tm_tensor.scan.
// CHECK-LABEL: func.func @main
// CHECK: tm_tensor.scan dimension(1) inclusive(true)
// CHECK: arith.addf
func.func @main(%x: !torch.vtensor<[4,32],f32>) -> !torch.vtensor<[4,32],f32> {
  %axis = torch.constant.int 1
  %none = torch.constant.none
  %0 = torch.aten.cumsum %x, %axis, %none : !torch.vtensor<[4,32],f32>, !torch.int, !torch.none -> !torch.vtensor<[4,32],f32>
  return %0 : !torch.vtensor<[4,32],f32>
}
