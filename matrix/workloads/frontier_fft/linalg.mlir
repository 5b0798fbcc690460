#in = affine_map<(m, k, j) -> (m, j)>
#out = affine_map<(m, k, j) -> (m, k)>

func.func @main(%x: tensor<7x45xf32>) -> (tensor<7x23xf32>, tensor<7x23xf32>) {
  %zero = arith.constant 0.0 : f32
  %length = arith.constant 45 : index
  %step = arith.constant 0.139626340159546366 : f32
  %empty = tensor.empty() : tensor<7x23xf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%empty : tensor<7x23xf32>) -> tensor<7x23xf32>
  %re, %im = linalg.generic {indexing_maps = [#in, #out, #out], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%x : tensor<7x45xf32>) outs(%zeros, %zeros : tensor<7x23xf32>, tensor<7x23xf32>) {
  ^bb0(%a: f32, %cosines: f32, %sines: f32):
    %k = linalg.index 1 : index
    %j = linalg.index 2 : index
    %turns = arith.muli %j, %k : index
    %rest = arith.remui %turns, %length : index
    %number = arith.index_cast %rest : index to i32
    %part = arith.sitofp %number : i32 to f32
    %angle = arith.mulf %part, %step : f32
    %cos = math.cos %angle : f32
    %sin = math.sin %angle : f32
    %along = arith.mulf %a, %cos : f32
    %across = arith.mulf %a, %sin : f32
    %next_re = arith.addf %cosines, %along : f32
    %next_im = arith.subf %sines, %across : f32
    linalg.yield %next_re, %next_im : f32, f32
  } -> (tensor<7x23xf32>, tensor<7x23xf32>)
  return %re, %im : tensor<7x23xf32>, tensor<7x23xf32>
}
