#elem = affine_map<(i, j) -> (i, j)>
#row = affine_map<(i, j) -> (i)>

func.func @main(%x: tensor<45x133xf32>) -> tensor<45xi32> {
  %first = arith.constant 0 : i32
  %lowest = arith.constant 0xFF800000 : f32
  %rows = tensor.empty() : tensor<45xf32>
  %places = tensor.empty() : tensor<45xi32>
  %max0 = linalg.fill ins(%lowest : f32) outs(%rows : tensor<45xf32>) -> tensor<45xf32>
  %argmax0 = linalg.fill ins(%first : i32) outs(%places : tensor<45xi32>) -> tensor<45xi32>
  %max, %argmax = linalg.generic {indexing_maps = [#elem, #row, #row], iterator_types = ["parallel", "reduction"]}
      ins(%x : tensor<45x133xf32>) outs(%max0, %argmax0 : tensor<45xf32>, tensor<45xi32>) {
  ^bb0(%xi: f32, %best: f32, %place: i32):
    %j = linalg.index 1 : index
    %here = arith.index_cast %j : index to i32
    %larger = arith.cmpf ogt, %xi, %best : f32
    %value = arith.select %larger, %xi, %best : f32
    %index = arith.select %larger, %here, %place : i32
    linalg.yield %value, %index : f32, i32
  } -> (tensor<45xf32>, tensor<45xi32>)
  return %argmax : tensor<45xi32>
}
