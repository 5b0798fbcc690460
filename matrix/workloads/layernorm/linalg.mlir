#elem = affine_map<(i, j) -> (i, j)>
#row = affine_map<(i, j) -> (i)>
#column = affine_map<(i, j) -> (j)>

func.func @main(%x: tensor<37x250xf32>, %w: tensor<250xf32>, %b: tensor<250xf32>) -> tensor<37x250xf32> {
  %zero = arith.constant 0.0 : f32
  %n = arith.constant 250.0 : f32
  %epsilon = arith.constant 1.0e-05 : f32
  %rows = tensor.empty() : tensor<37xf32>
  %full = tensor.empty() : tensor<37x250xf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%rows : tensor<37xf32>) -> tensor<37xf32>

  %sum = linalg.reduce {arith.addf}
      ins(%x : tensor<37x250xf32>) outs(%zeros : tensor<37xf32>) dimensions = [1]
  %d = linalg.generic {indexing_maps = [#elem, #row, #elem], iterator_types = ["parallel", "parallel"]}
      ins(%x, %sum : tensor<37x250xf32>, tensor<37xf32>) outs(%full : tensor<37x250xf32>) {
  ^bb0(%xi: f32, %si: f32, %out: f32):
    %mean = arith.divf %si, %n : f32
    %di = arith.subf %xi, %mean : f32
    linalg.yield %di : f32
  } -> tensor<37x250xf32>
  %squares = linalg.generic {indexing_maps = [#elem, #row], iterator_types = ["parallel", "reduction"]}
      ins(%d : tensor<37x250xf32>) outs(%zeros : tensor<37xf32>) {
  ^bb0(%di: f32, %acc: f32):
    %sq = arith.mulf %di, %di : f32
    %next = arith.addf %acc, %sq : f32
    linalg.yield %next : f32
  } -> tensor<37xf32>
  %y = linalg.generic {
      indexing_maps = [#elem, #row, #column, #column, #elem], iterator_types = ["parallel", "parallel"]}
      ins(%d, %squares, %w, %b : tensor<37x250xf32>, tensor<37xf32>, tensor<250xf32>, tensor<250xf32>)
      outs(%full : tensor<37x250xf32>) {
  ^bb0(%di: f32, %si: f32, %wi: f32, %bi: f32, %out: f32):
    %variance = arith.divf %si, %n : f32
    %shifted = arith.addf %variance, %epsilon : f32
    %deviation = math.sqrt %shifted : f32
    %normal = arith.divf %di, %deviation : f32
    %scaled = arith.mulf %normal, %wi : f32
    %yi = arith.addf %scaled, %bi : f32
    linalg.yield %yi : f32
  } -> tensor<37x250xf32>
  return %y : tensor<37x250xf32>
}
