#elem = affine_map<(i, j) -> (i, j)>
#row = affine_map<(i, j) -> (i)>
#column = affine_map<(i, j) -> (j)>
#elem3 = affine_map<(n, i, j) -> (n, i, j)>
#row3 = affine_map<(n, i, j) -> (n, i)>

// The two sequences of 17 positions are 34 rows, but for attention, where they and the heads are 8 batches.
func.func @main(%x3: tensor<2x17x48xf32>, %ln1_w: tensor<48xf32>, %ln1_b: tensor<48xf32>,
                %qkv_w: tensor<48x144xf32>, %qkv_b: tensor<144xf32>,
                %out_w: tensor<48x48xf32>, %out_b: tensor<48xf32>,
                %ln2_w: tensor<48xf32>, %ln2_b: tensor<48xf32>,
                %up_w: tensor<48x100xf32>, %up_b: tensor<100xf32>,
                %down_w: tensor<100x48xf32>, %down_b: tensor<48xf32>) -> tensor<2x17x48xf32> {
  %zero = arith.constant 0.0 : f32
  %one = arith.constant 1.0 : f32
  %lowest = arith.constant 0xFF800000 : f32
  %width = arith.constant 48.0 : f32
  %epsilon = arith.constant 1.0e-05 : f32
  %scale = arith.constant 0.288675129 : f32
  %x = tensor.collapse_shape %x3 [[0, 1], [2]] : tensor<2x17x48xf32> into tensor<34x48xf32>
  %rows = tensor.empty() : tensor<34xf32>
  %full = tensor.empty() : tensor<34x48xf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%rows : tensor<34xf32>) -> tensor<34xf32>

  // norm1 = layer_norm(x)
  %sum1 = linalg.reduce {arith.addf} ins(%x : tensor<34x48xf32>) outs(%zeros : tensor<34xf32>) dimensions = [1]
  %d1 = linalg.generic {indexing_maps = [#elem, #row, #elem], iterator_types = ["parallel", "parallel"]}
      ins(%x, %sum1 : tensor<34x48xf32>, tensor<34xf32>) outs(%full : tensor<34x48xf32>) {
  ^bb0(%xi: f32, %si: f32, %out: f32):
    %mean = arith.divf %si, %width : f32
    %di = arith.subf %xi, %mean : f32
    linalg.yield %di : f32
  } -> tensor<34x48xf32>
  %squares1 = linalg.generic {indexing_maps = [#elem, #row], iterator_types = ["parallel", "reduction"]}
      ins(%d1 : tensor<34x48xf32>) outs(%zeros : tensor<34xf32>) {
  ^bb0(%di: f32, %acc: f32):
    %sq = arith.mulf %di, %di : f32
    %next = arith.addf %acc, %sq : f32
    linalg.yield %next : f32
  } -> tensor<34xf32>
  %norm1 = linalg.generic {
      indexing_maps = [#elem, #row, #column, #column, #elem], iterator_types = ["parallel", "parallel"]}
      ins(%d1, %squares1, %ln1_w, %ln1_b : tensor<34x48xf32>, tensor<34xf32>, tensor<48xf32>, tensor<48xf32>)
      outs(%full : tensor<34x48xf32>) {
  ^bb0(%di: f32, %si: f32, %wi: f32, %bi: f32, %out: f32):
    %variance = arith.divf %si, %width : f32
    %shifted = arith.addf %variance, %epsilon : f32
    %deviation = math.sqrt %shifted : f32
    %normal = arith.divf %di, %deviation : f32
    %scaled = arith.mulf %normal, %wi : f32
    %yi = arith.addf %scaled, %bi : f32
    linalg.yield %yi : f32
  } -> tensor<34x48xf32>

  // q, k, v [8, 17, 12]: k transposed to [8, 12, 17]
  %qkv_empty = tensor.empty() : tensor<34x144xf32>
  %qkv_init = linalg.broadcast ins(%qkv_b : tensor<144xf32>) outs(%qkv_empty : tensor<34x144xf32>) dimensions = [0]
  %qkv2 = linalg.matmul ins(%norm1, %qkv_w : tensor<34x48xf32>, tensor<48x144xf32>)
                        outs(%qkv_init : tensor<34x144xf32>) -> tensor<34x144xf32>
  %qkv = tensor.expand_shape %qkv2 [[0, 1], [2, 3, 4]] output_shape [2, 17, 3, 4, 12]
      : tensor<34x144xf32> into tensor<2x17x3x4x12xf32>
  %q0 = tensor.extract_slice %qkv[0, 0, 0, 0, 0] [2, 17, 1, 4, 12] [1, 1, 1, 1, 1]
      : tensor<2x17x3x4x12xf32> to tensor<2x17x4x12xf32>
  %k0 = tensor.extract_slice %qkv[0, 0, 1, 0, 0] [2, 17, 1, 4, 12] [1, 1, 1, 1, 1]
      : tensor<2x17x3x4x12xf32> to tensor<2x17x4x12xf32>
  %v0 = tensor.extract_slice %qkv[0, 0, 2, 0, 0] [2, 17, 1, 4, 12] [1, 1, 1, 1, 1]
      : tensor<2x17x3x4x12xf32> to tensor<2x17x4x12xf32>
  %heads = tensor.empty() : tensor<2x4x17x12xf32>
  %heads_t = tensor.empty() : tensor<2x4x12x17xf32>
  %q4 = linalg.transpose ins(%q0 : tensor<2x17x4x12xf32>) outs(%heads : tensor<2x4x17x12xf32>)
      permutation = [0, 2, 1, 3]
  %k4 = linalg.transpose ins(%k0 : tensor<2x17x4x12xf32>) outs(%heads_t : tensor<2x4x12x17xf32>)
      permutation = [0, 2, 3, 1]
  %v4 = linalg.transpose ins(%v0 : tensor<2x17x4x12xf32>) outs(%heads : tensor<2x4x17x12xf32>)
      permutation = [0, 2, 1, 3]
  %q = tensor.collapse_shape %q4 [[0, 1], [2], [3]] : tensor<2x4x17x12xf32> into tensor<8x17x12xf32>
  %k = tensor.collapse_shape %k4 [[0, 1], [2], [3]] : tensor<2x4x12x17xf32> into tensor<8x12x17xf32>
  %v = tensor.collapse_shape %v4 [[0, 1], [2], [3]] : tensor<2x4x17x12xf32> into tensor<8x17x12xf32>

  // weights = softmax(causal(q @ k))
  %square = tensor.empty() : tensor<8x17x17xf32>
  %rows3 = tensor.empty() : tensor<8x17xf32>
  %dots0 = linalg.fill ins(%zero : f32) outs(%square : tensor<8x17x17xf32>) -> tensor<8x17x17xf32>
  %dots = linalg.batch_matmul ins(%q, %k : tensor<8x17x12xf32>, tensor<8x12x17xf32>)
      outs(%dots0 : tensor<8x17x17xf32>) -> tensor<8x17x17xf32>
  %scores = linalg.generic {indexing_maps = [#elem3, #elem3], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%dots : tensor<8x17x17xf32>) outs(%square : tensor<8x17x17xf32>) {
  ^bb0(%dot: f32, %out: f32):
    %i = linalg.index 1 : index
    %j = linalg.index 2 : index
    %seen = arith.cmpi ule, %j, %i : index
    %scaled = arith.mulf %dot, %scale : f32
    %score = arith.select %seen, %scaled, %lowest : f32
    linalg.yield %score : f32
  } -> tensor<8x17x17xf32>
  %max0 = linalg.fill ins(%lowest : f32) outs(%rows3 : tensor<8x17xf32>) -> tensor<8x17xf32>
  %max = linalg.reduce {arith.maximumf}
      ins(%scores : tensor<8x17x17xf32>) outs(%max0 : tensor<8x17xf32>) dimensions = [2]
  %e = linalg.generic {
      indexing_maps = [#elem3, #row3, #elem3], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%scores, %max : tensor<8x17x17xf32>, tensor<8x17xf32>) outs(%square : tensor<8x17x17xf32>) {
  ^bb0(%score: f32, %mi: f32, %out: f32):
    %d = arith.subf %score, %mi : f32
    %ed = math.exp %d : f32
    linalg.yield %ed : f32
  } -> tensor<8x17x17xf32>
  %sum0 = linalg.fill ins(%zero : f32) outs(%rows3 : tensor<8x17xf32>) -> tensor<8x17xf32>
  %sum = linalg.reduce {arith.addf} ins(%e : tensor<8x17x17xf32>) outs(%sum0 : tensor<8x17xf32>) dimensions = [2]
  %weights = linalg.generic {
      indexing_maps = [#elem3, #row3, #elem3], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%e, %sum : tensor<8x17x17xf32>, tensor<8x17xf32>) outs(%square : tensor<8x17x17xf32>) {
  ^bb0(%ei: f32, %si: f32, %out: f32):
    %weight = arith.divf %ei, %si : f32
    linalg.yield %weight : f32
  } -> tensor<8x17x17xf32>

  // x1 = x + (weights @ v) @ out_w + out_b
  %mixed_empty = tensor.empty() : tensor<8x17x12xf32>
  %mixed0 = linalg.fill ins(%zero : f32) outs(%mixed_empty : tensor<8x17x12xf32>) -> tensor<8x17x12xf32>
  %mixed3 = linalg.batch_matmul ins(%weights, %v : tensor<8x17x17xf32>, tensor<8x17x12xf32>)
      outs(%mixed0 : tensor<8x17x12xf32>) -> tensor<8x17x12xf32>
  %mixed4 = tensor.expand_shape %mixed3 [[0, 1], [2], [3]] output_shape [2, 4, 17, 12]
      : tensor<8x17x12xf32> into tensor<2x4x17x12xf32>
  %joined = tensor.empty() : tensor<2x17x4x12xf32>
  %mixed_t = linalg.transpose ins(%mixed4 : tensor<2x4x17x12xf32>) outs(%joined : tensor<2x17x4x12xf32>)
      permutation = [0, 2, 1, 3]
  %mixed = tensor.collapse_shape %mixed_t [[0, 1], [2, 3]] : tensor<2x17x4x12xf32> into tensor<34x48xf32>
  %out_init = linalg.broadcast ins(%out_b : tensor<48xf32>) outs(%full : tensor<34x48xf32>) dimensions = [0]
  %attended = linalg.matmul ins(%mixed, %out_w : tensor<34x48xf32>, tensor<48x48xf32>)
                            outs(%out_init : tensor<34x48xf32>) -> tensor<34x48xf32>
  %x1 = linalg.generic {indexing_maps = [#elem, #elem, #elem], iterator_types = ["parallel", "parallel"]}
      ins(%x, %attended : tensor<34x48xf32>, tensor<34x48xf32>) outs(%full : tensor<34x48xf32>) {
  ^bb0(%left: f32, %right: f32, %out: f32):
    %both = arith.addf %left, %right : f32
    linalg.yield %both : f32
  } -> tensor<34x48xf32>

  // norm2 = layer_norm(x1)
  %sum2 = linalg.reduce {arith.addf} ins(%x1 : tensor<34x48xf32>) outs(%zeros : tensor<34xf32>) dimensions = [1]
  %d2 = linalg.generic {indexing_maps = [#elem, #row, #elem], iterator_types = ["parallel", "parallel"]}
      ins(%x1, %sum2 : tensor<34x48xf32>, tensor<34xf32>) outs(%full : tensor<34x48xf32>) {
  ^bb0(%xi: f32, %si: f32, %out: f32):
    %mean = arith.divf %si, %width : f32
    %di = arith.subf %xi, %mean : f32
    linalg.yield %di : f32
  } -> tensor<34x48xf32>
  %squares2 = linalg.generic {indexing_maps = [#elem, #row], iterator_types = ["parallel", "reduction"]}
      ins(%d2 : tensor<34x48xf32>) outs(%zeros : tensor<34xf32>) {
  ^bb0(%di: f32, %acc: f32):
    %sq = arith.mulf %di, %di : f32
    %next = arith.addf %acc, %sq : f32
    linalg.yield %next : f32
  } -> tensor<34xf32>
  %norm2 = linalg.generic {
      indexing_maps = [#elem, #row, #column, #column, #elem], iterator_types = ["parallel", "parallel"]}
      ins(%d2, %squares2, %ln2_w, %ln2_b : tensor<34x48xf32>, tensor<34xf32>, tensor<48xf32>, tensor<48xf32>)
      outs(%full : tensor<34x48xf32>) {
  ^bb0(%di: f32, %si: f32, %wi: f32, %bi: f32, %out: f32):
    %variance = arith.divf %si, %width : f32
    %shifted = arith.addf %variance, %epsilon : f32
    %deviation = math.sqrt %shifted : f32
    %normal = arith.divf %di, %deviation : f32
    %scaled = arith.mulf %normal, %wi : f32
    %yi = arith.addf %scaled, %bi : f32
    linalg.yield %yi : f32
  } -> tensor<34x48xf32>

  // y = x1 + silu(norm2 @ up_w + up_b) @ down_w + down_b
  %up_empty = tensor.empty() : tensor<34x100xf32>
  %up_init = linalg.broadcast ins(%up_b : tensor<100xf32>) outs(%up_empty : tensor<34x100xf32>) dimensions = [0]
  %up = linalg.matmul ins(%norm2, %up_w : tensor<34x48xf32>, tensor<48x100xf32>)
                      outs(%up_init : tensor<34x100xf32>) -> tensor<34x100xf32>
  %hidden = linalg.generic {indexing_maps = [#elem, #elem], iterator_types = ["parallel", "parallel"]}
      ins(%up : tensor<34x100xf32>) outs(%up_empty : tensor<34x100xf32>) {
  ^bb0(%xi: f32, %out: f32):
    %minus = arith.negf %xi : f32
    %power = math.exp %minus : f32
    %whole = arith.addf %power, %one : f32
    %yi = arith.divf %xi, %whole : f32
    linalg.yield %yi : f32
  } -> tensor<34x100xf32>
  %down_init = linalg.broadcast ins(%down_b : tensor<48xf32>) outs(%full : tensor<34x48xf32>) dimensions = [0]
  %down = linalg.matmul ins(%hidden, %down_w : tensor<34x100xf32>, tensor<100x48xf32>)
                        outs(%down_init : tensor<34x48xf32>) -> tensor<34x48xf32>
  %y2 = linalg.generic {indexing_maps = [#elem, #elem, #elem], iterator_types = ["parallel", "parallel"]}
      ins(%x1, %down : tensor<34x48xf32>, tensor<34x48xf32>) outs(%full : tensor<34x48xf32>) {
  ^bb0(%left: f32, %right: f32, %out: f32):
    %both = arith.addf %left, %right : f32
    linalg.yield %both : f32
  } -> tensor<34x48xf32>
  %y = tensor.expand_shape %y2 [[0, 1], [2]] output_shape [2, 17, 48] : tensor<34x48xf32> into tensor<2x17x48xf32>
  return %y : tensor<2x17x48xf32>
}
