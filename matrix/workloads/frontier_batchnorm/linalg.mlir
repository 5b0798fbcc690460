#all = affine_map<(n, c, h, w) -> (n, c, h, w)>
#channel = affine_map<(n, c, h, w) -> (c)>

func.func @main(%x: tensor<3x5x4x7xf32>, %mean: tensor<5xf32>, %variance: tensor<5xf32>, %w: tensor<5xf32>, %b: tensor<5xf32>)
    -> tensor<3x5x4x7xf32> {
  %epsilon = arith.constant 1.0e-5 : f32
  %empty = tensor.empty() : tensor<3x5x4x7xf32>
  %y = linalg.generic {indexing_maps = [#all, #channel, #channel, #channel, #channel, #all],
                       iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%x, %mean, %variance, %w, %b : tensor<3x5x4x7xf32>, tensor<5xf32>, tensor<5xf32>, tensor<5xf32>, tensor<5xf32>)
      outs(%empty : tensor<3x5x4x7xf32>) {
  ^bb0(%a: f32, %m: f32, %v: f32, %scale: f32, %shift: f32, %out: f32):
    %more = arith.addf %v, %epsilon : f32
    %root = math.sqrt %more : f32
    %centred = arith.subf %a, %m : f32
    %normal = arith.divf %centred, %root : f32
    %scaled = arith.mulf %normal, %scale : f32
    %each = arith.addf %scaled, %shift : f32
    linalg.yield %each : f32
  } -> tensor<3x5x4x7xf32>
  return %y : tensor<3x5x4x7xf32>
}
