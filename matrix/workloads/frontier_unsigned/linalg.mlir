#map = affine_map<(i) -> (i)>

func.func @main(%x: tensor<53xi16>, %y: tensor<53xi32>, %z: tensor<53xi64>)
    -> (tensor<53xi32>, tensor<53xi64>, tensor<53xi16>, tensor<53xi32>, tensor<53xf32>) {
  %three = arith.constant 3 : i16
  %half = arith.constant 16 : i32
  %shorts = tensor.empty() : tensor<53xi16>
  %words = tensor.empty() : tensor<53xi32>
  %longs = tensor.empty() : tensor<53xi64>
  %floats = tensor.empty() : tensor<53xf32>
  %results:5 = linalg.generic {indexing_maps = [#map, #map, #map, #map, #map, #map, #map, #map], iterator_types = ["parallel"]}
      ins(%x, %y, %z : tensor<53xi16>, tensor<53xi32>, tensor<53xi64>)
      outs(%words, %longs, %shorts, %words, %floats : tensor<53xi32>, tensor<53xi64>, tensor<53xi16>, tensor<53xi32>, tensor<53xf32>) {
  ^bb0(%a: i16, %b: i32, %c: i64, %o0: i32, %o1: i64, %o2: i16, %o3: i32, %o4: f32):
    %wide = arith.extui %a : i16 to i32
    %quotient = arith.divui %b, %wide : i32
    %long = arith.extui %b : i32 to i64
    %remainder = arith.remui %c, %long : i64
    %shifted = arith.shrui %a, %three : i16
    %high = arith.shli %wide, %half : i32
    %larger = arith.maxui %b, %high : i32
    %number = arith.uitofp %b : i32 to f32
    linalg.yield %quotient, %remainder, %shifted, %larger, %number : i32, i64, i16, i32, f32
  } -> (tensor<53xi32>, tensor<53xi64>, tensor<53xi16>, tensor<53xi32>, tensor<53xf32>)
  return %results#0, %results#1, %results#2, %results#3, %results#4
      : tensor<53xi32>, tensor<53xi64>, tensor<53xi16>, tensor<53xi32>, tensor<53xf32>
}
