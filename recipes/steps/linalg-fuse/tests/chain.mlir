// Three operators become one, and the largest value that comes with the index of it loses the index nobody reads.
// CHECK-LABEL: func.func @chain
// CHECK: linalg.generic
// CHECK: arith.addf
// CHECK-NEXT: math.exp
// CHECK-NEXT: arith.mulf
// CHECK-NOT: linalg.generic
// CHECK-LABEL: func.func @largest
// CHECK: -> tensor<4xf32>
// CHECK-NOT: tensor<4xi64>
#id = affine_map<(d0) -> (d0)>
#all = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d0)>
module {
  func.func @chain(%a: tensor<8xf32>, %b: tensor<8xf32>) -> tensor<8xf32> {
    %e = tensor.empty() : tensor<8xf32>
    %0 = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel"]} ins(%a, %b : tensor<8xf32>, tensor<8xf32>) outs(%e : tensor<8xf32>) {
    ^bb0(%x: f32, %y: f32, %o: f32):
      %s = arith.addf %x, %y : f32
      linalg.yield %s : f32
    } -> tensor<8xf32>
    %1 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%0 : tensor<8xf32>) outs(%e : tensor<8xf32>) {
    ^bb0(%x: f32, %o: f32):
      %s = math.exp %x : f32
      linalg.yield %s : f32
    } -> tensor<8xf32>
    %2 = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel"]} ins(%1, %b : tensor<8xf32>, tensor<8xf32>) outs(%e : tensor<8xf32>) {
    ^bb0(%x: f32, %y: f32, %o: f32):
      %s = arith.mulf %x, %y : f32
      linalg.yield %s : f32
    } -> tensor<8xf32>
    return %2 : tensor<8xf32>
  }
  func.func @largest(%a: tensor<4x8xf32>, %least: tensor<4xf32>, %none: tensor<4xi64>) -> tensor<4xf32> {
    %0:2 = linalg.generic {indexing_maps = [#all, #row, #row], iterator_types = ["parallel", "reduction"]} ins(%a : tensor<4x8xf32>) outs(%least, %none : tensor<4xf32>, tensor<4xi64>) {
    ^bb0(%x: f32, %most: f32, %where: i64):
      %i = linalg.index 1 : index
      %here = arith.index_cast %i : index to i64
      %max = arith.maximumf %x, %most : f32
      %more = arith.cmpf ogt, %x, %most : f32
      %at = arith.select %more, %here, %where : i64
      linalg.yield %max, %at : f32, i64
    } -> (tensor<4xf32>, tensor<4xi64>)
    return %0#0 : tensor<4xf32>
  }
}
