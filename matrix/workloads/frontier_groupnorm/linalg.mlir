#all = affine_map<(n, g, c, h, w) -> (n, g, c, h, w)>
#group = affine_map<(n, g, c, h, w) -> (n, g)>
#channel = affine_map<(n, g, c, h, w) -> (g, c)>

func.func @main(%x: tensor<2x6x5x7xf32>, %w: tensor<6xf32>, %b: tensor<6xf32>) -> tensor<2x6x5x7xf32> {
  %zero = arith.constant 0.0 : f32
  %count = arith.constant 70.0 : f32
  %epsilon = arith.constant 1.0e-5 : f32
  %groups = tensor.expand_shape %x [[0], [1, 2], [3], [4]] output_shape [2, 3, 2, 5, 7]
      : tensor<2x6x5x7xf32> into tensor<2x3x2x5x7xf32>
  %scales = tensor.expand_shape %w [[0, 1]] output_shape [3, 2] : tensor<6xf32> into tensor<3x2xf32>
  %shifts = tensor.expand_shape %b [[0, 1]] output_shape [3, 2] : tensor<6xf32> into tensor<3x2xf32>
  %empty = tensor.empty() : tensor<2x3xf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%empty : tensor<2x3xf32>) -> tensor<2x3xf32>
  %sum = linalg.reduce {arith.addf}
      ins(%groups : tensor<2x3x2x5x7xf32>) outs(%zeros : tensor<2x3xf32>) dimensions = [2, 3, 4]
  %squares = linalg.generic {indexing_maps = [#all, #group, #group],
                             iterator_types = ["parallel", "parallel", "reduction", "reduction", "reduction"]}
      ins(%groups, %sum : tensor<2x3x2x5x7xf32>, tensor<2x3xf32>) outs(%zeros : tensor<2x3xf32>) {
  ^bb0(%a: f32, %s: f32, %so_far: f32):
    %mean = arith.divf %s, %count : f32
    %centred = arith.subf %a, %mean : f32
    %square = arith.mulf %centred, %centred : f32
    %next = arith.addf %so_far, %square : f32
    linalg.yield %next : f32
  } -> tensor<2x3xf32>
  %out = tensor.empty() : tensor<2x3x2x5x7xf32>
  %normal = linalg.generic {indexing_maps = [#all, #group, #group, #channel, #channel, #all],
                            iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel"]}
      ins(%groups, %sum, %squares, %scales, %shifts
          : tensor<2x3x2x5x7xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<3x2xf32>, tensor<3x2xf32>)
      outs(%out : tensor<2x3x2x5x7xf32>) {
  ^bb0(%a: f32, %s: f32, %square: f32, %scale: f32, %shift: f32, %old: f32):
    %mean = arith.divf %s, %count : f32
    %variance = arith.divf %square, %count : f32
    %more = arith.addf %variance, %epsilon : f32
    %root = math.sqrt %more : f32
    %centred = arith.subf %a, %mean : f32
    %unit = arith.divf %centred, %root : f32
    %scaled = arith.mulf %unit, %scale : f32
    %each = arith.addf %scaled, %shift : f32
    linalg.yield %each : f32
  } -> tensor<2x3x2x5x7xf32>
  %y = tensor.collapse_shape %normal [[0], [1, 2], [3], [4]] : tensor<2x3x2x5x7xf32> into tensor<2x6x5x7xf32>
  return %y : tensor<2x6x5x7xf32>
}
