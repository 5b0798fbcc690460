// Booleans have a byte each in memory and a bit each in a vector; windows are no vectors. Neither may be vectorized; the sum is.
// CHECK-LABEL: func.func @main
// CHECK: linalg.generic
// CHECK: arith.xori {{.*}} : i1
// CHECK: linalg.pooling_nchw_max
// CHECK: arith.addf {{.*}} : vector<{{.*}}16xf32>
#map = affine_map<(d0, d1) -> (d0, d1)>
module {
  func.func @main(%m: tensor<4x32xi1>, %x: tensor<1x2x8x8xf32>, %w: tensor<3x3xf32>, %p: tensor<1x2x6x6xf32>, %s: tensor<32xf32>) -> (tensor<4x32xi1>, tensor<1x2x6x6xf32>, tensor<32xf32>) {
    %e = tensor.empty() : tensor<4x32xi1>
    %0 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]} ins(%m : tensor<4x32xi1>) outs(%e : tensor<4x32xi1>) {
    ^bb0(%b: i1, %o: i1):
      %true = arith.constant true
      %n = arith.xori %b, %true : i1
      linalg.yield %n : i1
    } -> tensor<4x32xi1>
    %1 = linalg.pooling_nchw_max {dilations = dense<1> : vector<2xi64>, strides = dense<1> : vector<2xi64>} ins(%x, %w : tensor<1x2x8x8xf32>, tensor<3x3xf32>) outs(%p : tensor<1x2x6x6xf32>) -> tensor<1x2x6x6xf32>
    %2 = tensor.empty() : tensor<32xf32>
    %3 = linalg.add ins(%s, %s : tensor<32xf32>, tensor<32xf32>) outs(%2 : tensor<32xf32>) -> tensor<32xf32>
    return %0, %1, %3 : tensor<4x32xi1>, tensor<1x2x6x6xf32>, tensor<32xf32>
  }
}
