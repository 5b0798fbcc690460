#elem = affine_map<(b, e, t) -> (b, t, e)>
#row = affine_map<(b, e, t) -> (b)>
#out = affine_map<(b, e, t) -> (b, e)>
#mean = affine_map<(b, e) -> (b, e)>
#count = affine_map<(b, e) -> (b)>

func.func @main(%x: tensor<5x17x7xf32>, %lengths: tensor<5xi32>) -> tensor<5x7xf32> {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<5x7xf32>
  %init = linalg.fill ins(%zero : f32) outs(%empty : tensor<5x7xf32>) -> tensor<5x7xf32>
  %sum = linalg.generic {indexing_maps = [#elem, #row, #out], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%x, %lengths : tensor<5x17x7xf32>, tensor<5xi32>) outs(%init : tensor<5x7xf32>) {
  ^bb0(%xi: f32, %length: i32, %partial: f32):
    %t = linalg.index 2 : index
    %place = arith.index_cast %t : index to i32
    %inside = arith.cmpi slt, %place, %length : i32
    %term = arith.select %inside, %xi, %zero : f32
    %next = arith.addf %partial, %term : f32
    linalg.yield %next : f32
  } -> tensor<5x7xf32>
  %y = linalg.generic {indexing_maps = [#mean, #count, #mean], iterator_types = ["parallel", "parallel"]}
      ins(%sum, %lengths : tensor<5x7xf32>, tensor<5xi32>) outs(%empty : tensor<5x7xf32>) {
  ^bb0(%s: f32, %length: i32, %out: f32):
    %n = arith.sitofp %length : i32 to f32
    %mean = arith.divf %s, %n : f32
    linalg.yield %mean : f32
  } -> tensor<5x7xf32>
  return %y : tensor<5x7xf32>
}
