#elem = affine_map<(i, j) -> (i, j)>
#row = affine_map<(i, j) -> (i)>

func.func @main(%x: tensor<?x?xf32>) -> tensor<?x?xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %zero = arith.constant 0.0 : f32
  %lowest = arith.constant 0xFF800000 : f32
  %m = tensor.dim %x, %c0 : tensor<?x?xf32>
  %n = tensor.dim %x, %c1 : tensor<?x?xf32>
  %rows = tensor.empty(%m) : tensor<?xf32>
  %full = tensor.empty(%m, %n) : tensor<?x?xf32>
  %max0 = linalg.fill ins(%lowest : f32) outs(%rows : tensor<?xf32>) -> tensor<?xf32>
  %max = linalg.reduce {arith.maximumf} ins(%x : tensor<?x?xf32>) outs(%max0 : tensor<?xf32>) dimensions = [1]
  %e = linalg.generic {indexing_maps = [#elem, #row, #elem], iterator_types = ["parallel", "parallel"]}
      ins(%x, %max : tensor<?x?xf32>, tensor<?xf32>) outs(%full : tensor<?x?xf32>) {
  ^bb0(%xi: f32, %mi: f32, %out: f32):
    %d = arith.subf %xi, %mi : f32
    %power = math.exp %d : f32
    linalg.yield %power : f32
  } -> tensor<?x?xf32>
  %sum0 = linalg.fill ins(%zero : f32) outs(%rows : tensor<?xf32>) -> tensor<?xf32>
  %sum = linalg.reduce {arith.addf} ins(%e : tensor<?x?xf32>) outs(%sum0 : tensor<?xf32>) dimensions = [1]
  %y = linalg.generic {indexing_maps = [#elem, #row, #elem], iterator_types = ["parallel", "parallel"]}
      ins(%e, %sum : tensor<?x?xf32>, tensor<?xf32>) outs(%full : tensor<?x?xf32>) {
  ^bb0(%ei: f32, %si: f32, %out: f32):
    %share = arith.divf %ei, %si : f32
    linalg.yield %share : f32
  } -> tensor<?x?xf32>
  return %y : tensor<?x?xf32>
}
