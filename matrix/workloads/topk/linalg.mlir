#elem = affine_map<(i, j) -> (i, j)>
#row = affine_map<(i, j) -> (i)>

// Selection: take each row's largest element K times, striking it out each time: in a copy, not in the caller's x.
func.func @main(%x: tensor<13x101xf32> {bufferization.writable = false})
    -> (tensor<13x10xf32>, tensor<13x10xi32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %k = arith.constant 10 : index
  %first = arith.constant 0 : i32
  %lowest = arith.constant 0xFF800000 : f32
  %rows = tensor.empty() : tensor<13xf32>
  %places = tensor.empty() : tensor<13xi32>
  %values0 = tensor.empty() : tensor<13x10xf32>
  %indices0 = tensor.empty() : tensor<13x10xi32>

  %values, %indices, %left = scf.for %step = %c0 to %k step %c1
      iter_args(%v = %values0, %p = %indices0, %rest = %x)
      -> (tensor<13x10xf32>, tensor<13x10xi32>, tensor<13x101xf32>) {
    %max0 = linalg.fill ins(%lowest : f32) outs(%rows : tensor<13xf32>) -> tensor<13xf32>
    %argmax0 = linalg.fill ins(%first : i32) outs(%places : tensor<13xi32>) -> tensor<13xi32>
    %max, %argmax = linalg.generic {
        indexing_maps = [#elem, #row, #row], iterator_types = ["parallel", "reduction"]}
        ins(%rest : tensor<13x101xf32>) outs(%max0, %argmax0 : tensor<13xf32>, tensor<13xi32>) {
    ^bb0(%xi: f32, %best: f32, %place: i32):
      %j = linalg.index 1 : index
      %here = arith.index_cast %j : index to i32
      %larger = arith.cmpf ogt, %xi, %best : f32
      %value = arith.select %larger, %xi, %best : f32
      %index = arith.select %larger, %here, %place : i32
      linalg.yield %value, %index : f32, i32
    } -> (tensor<13xf32>, tensor<13xi32>)
    %fewer = linalg.generic {indexing_maps = [#row, #elem], iterator_types = ["parallel", "parallel"]}
        ins(%argmax : tensor<13xi32>) outs(%rest : tensor<13x101xf32>) {
    ^bb0(%place: i32, %xi: f32):
      %j = linalg.index 1 : index
      %here = arith.index_cast %j : index to i32
      %taken = arith.cmpi eq, %here, %place : i32
      %kept = arith.select %taken, %lowest, %xi : f32
      linalg.yield %kept : f32
    } -> tensor<13x101xf32>
    %v1 = tensor.insert_slice %max into %v[0, %step] [13, 1] [1, 1] : tensor<13xf32> into tensor<13x10xf32>
    %p1 = tensor.insert_slice %argmax into %p[0, %step] [13, 1] [1, 1] : tensor<13xi32> into tensor<13x10xi32>
    scf.yield %v1, %p1, %fewer : tensor<13x10xf32>, tensor<13x10xi32>, tensor<13x101xf32>
  }
  return %values, %indices : tensor<13x10xf32>, tensor<13x10xi32>
}
