#elem = affine_map<(n, i, j) -> (n, i, j)>
#row = affine_map<(n, i, j) -> (n, i)>
#q = affine_map<(n, i, j, d) -> (n, i, d)>
#k = affine_map<(n, i, j, d) -> (n, j, d)>
#score = affine_map<(n, i, j, d) -> (n, i, j)>

func.func @main(%q4: tensor<2x4x33x24xf32>, %k4: tensor<2x4x33x24xf32>, %v4: tensor<2x4x33x24xf32>)
    -> tensor<2x4x33x24xf32> {
  %zero = arith.constant 0.0 : f32
  %lowest = arith.constant 0xFF800000 : f32
  %scale = arith.constant 0.204124153 : f32
  %rows = tensor.empty() : tensor<8x33xf32>
  %square = tensor.empty() : tensor<8x33x33xf32>
  %full = tensor.empty() : tensor<8x33x24xf32>
  %q = tensor.collapse_shape %q4 [[0, 1], [2], [3]] : tensor<2x4x33x24xf32> into tensor<8x33x24xf32>
  %k = tensor.collapse_shape %k4 [[0, 1], [2], [3]] : tensor<2x4x33x24xf32> into tensor<8x33x24xf32>
  %v = tensor.collapse_shape %v4 [[0, 1], [2], [3]] : tensor<2x4x33x24xf32> into tensor<8x33x24xf32>

  %dots0 = linalg.fill ins(%zero : f32) outs(%square : tensor<8x33x33xf32>) -> tensor<8x33x33xf32>
  %dots = linalg.generic {
      indexing_maps = [#q, #k, #score], iterator_types = ["parallel", "parallel", "parallel", "reduction"]}
      ins(%q, %k : tensor<8x33x24xf32>, tensor<8x33x24xf32>) outs(%dots0 : tensor<8x33x33xf32>) {
  ^bb0(%qi: f32, %ki: f32, %acc: f32):
    %product = arith.mulf %qi, %ki : f32
    %next = arith.addf %acc, %product : f32
    linalg.yield %next : f32
  } -> tensor<8x33x33xf32>
  %scores = linalg.generic {indexing_maps = [#elem, #elem], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%dots : tensor<8x33x33xf32>) outs(%square : tensor<8x33x33xf32>) {
  ^bb0(%dot: f32, %out: f32):
    %i = linalg.index 1 : index
    %j = linalg.index 2 : index
    %seen = arith.cmpi ule, %j, %i : index
    %scaled = arith.mulf %dot, %scale : f32
    %score = arith.select %seen, %scaled, %lowest : f32
    linalg.yield %score : f32
  } -> tensor<8x33x33xf32>

  %max0 = linalg.fill ins(%lowest : f32) outs(%rows : tensor<8x33xf32>) -> tensor<8x33xf32>
  %max = linalg.reduce {arith.maximumf}
      ins(%scores : tensor<8x33x33xf32>) outs(%max0 : tensor<8x33xf32>) dimensions = [2]
  %e = linalg.generic {indexing_maps = [#elem, #row, #elem], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%scores, %max : tensor<8x33x33xf32>, tensor<8x33xf32>) outs(%square : tensor<8x33x33xf32>) {
  ^bb0(%score: f32, %mi: f32, %out: f32):
    %d = arith.subf %score, %mi : f32
    %ed = math.exp %d : f32
    linalg.yield %ed : f32
  } -> tensor<8x33x33xf32>
  %sum0 = linalg.fill ins(%zero : f32) outs(%rows : tensor<8x33xf32>) -> tensor<8x33xf32>
  %sum = linalg.reduce {arith.addf}
      ins(%e : tensor<8x33x33xf32>) outs(%sum0 : tensor<8x33xf32>) dimensions = [2]
  %weights = linalg.generic {
      indexing_maps = [#elem, #row, #elem], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%e, %sum : tensor<8x33x33xf32>, tensor<8x33xf32>) outs(%square : tensor<8x33x33xf32>) {
  ^bb0(%ei: f32, %si: f32, %out: f32):
    %weight = arith.divf %ei, %si : f32
    linalg.yield %weight : f32
  } -> tensor<8x33x33xf32>

  %y0 = linalg.fill ins(%zero : f32) outs(%full : tensor<8x33x24xf32>) -> tensor<8x33x24xf32>
  %y = linalg.batch_matmul ins(%weights, %v : tensor<8x33x33xf32>, tensor<8x33x24xf32>)
      outs(%y0 : tensor<8x33x24xf32>) -> tensor<8x33x24xf32>
  %y4 = tensor.expand_shape %y [[0, 1], [2], [3]] output_shape [2, 4, 33, 24]
      : tensor<8x33x24xf32> into tensor<2x4x33x24xf32>
  return %y4 : tensor<2x4x33x24xf32>
}
