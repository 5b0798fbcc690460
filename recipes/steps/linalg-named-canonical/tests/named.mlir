// Named operators pass, and so does a generic operator that linalg has no name for (a choice between two tensors).
// CHECK-LABEL: func.func @main
// CHECK: linalg.matmul
// CHECK: linalg.generic
// CHECK: arith.select
#map = affine_map<(d0, d1) -> (d0, d1)>
module {
  func.func @main(%a: tensor<4x8xf32>, %b: tensor<8x16xf32>, %c: tensor<4x16xf32>, %m: tensor<4x16xi1>) -> tensor<4x16xf32> {
    %0 = linalg.matmul ins(%a, %b : tensor<4x8xf32>, tensor<8x16xf32>) outs(%c : tensor<4x16xf32>) -> tensor<4x16xf32>
    %1 = tensor.empty() : tensor<4x16xf32>
    %2 = linalg.generic {indexing_maps = [#map, #map, #map, #map], iterator_types = ["parallel", "parallel"]} ins(%m, %0, %c : tensor<4x16xi1>, tensor<4x16xf32>, tensor<4x16xf32>) outs(%1 : tensor<4x16xf32>) {
    ^bb0(%in: i1, %in_0: f32, %in_1: f32, %out: f32):
      %3 = arith.select %in, %in_0, %in_1 : f32
      linalg.yield %3 : f32
    } -> tensor<4x16xf32>
    return %2 : tensor<4x16xf32>
  }
}
