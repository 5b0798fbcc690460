// CHECK-LABEL: func.func @matmul
// CHECK-NOT: linalg.generic
// CHECK: linalg.matmul
// CHECK-LABEL: func.func @elementwise
// CHECK-NOT: linalg.generic
// CHECK: linalg.add
// CHECK: linalg.exp
// A product with two batch dimensions has no name: it stays as it is, and stays valid.
// CHECK-LABEL: func.func @two_batches
// CHECK: linalg.generic
// CHECK-NOT: linalg.batch_matmul
#mk = affine_map<(d0, d1, d2) -> (d0, d2)>
#kn = affine_map<(d0, d1, d2) -> (d2, d1)>
#mn = affine_map<(d0, d1, d2) -> (d0, d1)>
#id = affine_map<(d0, d1) -> (d0, d1)>
#bmk = affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d2, d4)>
#bkn = affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d4, d3)>
#bmn = affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d2, d3)>
module {
  func.func @matmul(%a: tensor<4x8xf32>, %b: tensor<8x16xf32>, %c: tensor<4x16xf32>) -> tensor<4x16xf32> {
    %0 = linalg.generic {indexing_maps = [#mk, #kn, #mn], iterator_types = ["parallel", "parallel", "reduction"]} ins(%a, %b : tensor<4x8xf32>, tensor<8x16xf32>) outs(%c : tensor<4x16xf32>) {
    ^bb0(%x: f32, %y: f32, %o: f32):
      %p = arith.mulf %x, %y : f32
      %s = arith.addf %o, %p : f32
      linalg.yield %s : f32
    } -> tensor<4x16xf32>
    return %0 : tensor<4x16xf32>
  }
  func.func @elementwise(%a: tensor<4x8xf32>, %b: tensor<4x8xf32>) -> tensor<4x8xf32> {
    %e = tensor.empty() : tensor<4x8xf32>
    %0 = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel"]} ins(%a, %b : tensor<4x8xf32>, tensor<4x8xf32>) outs(%e : tensor<4x8xf32>) {
    ^bb0(%x: f32, %y: f32, %o: f32):
      %s = arith.addf %x, %y : f32
      linalg.yield %s : f32
    } -> tensor<4x8xf32>
    %1 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%0 : tensor<4x8xf32>) outs(%e : tensor<4x8xf32>) {
    ^bb0(%x: f32, %o: f32):
      %s = math.exp %x : f32
      linalg.yield %s : f32
    } -> tensor<4x8xf32>
    return %1 : tensor<4x8xf32>
  }
  func.func @two_batches(%a: tensor<2x3x4x8xf32>, %b: tensor<2x3x8x16xf32>, %c: tensor<2x3x4x16xf32>) -> tensor<2x3x4x16xf32> {
    %0 = linalg.generic {indexing_maps = [#bmk, #bkn, #bmn], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction"]} ins(%a, %b : tensor<2x3x4x8xf32>, tensor<2x3x8x16xf32>) outs(%c : tensor<2x3x4x16xf32>) {
    ^bb0(%x: f32, %y: f32, %o: f32):
      %p = arith.mulf %x, %y : f32
      %s = arith.addf %o, %p : f32
      linalg.yield %s : f32
    } -> tensor<2x3x4x16xf32>
    return %0 : tensor<2x3x4x16xf32>
  }
}
