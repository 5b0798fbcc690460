// Gram and Schmidt's method, modified: of each column in turn, what the earlier ones span is taken away.
#map = affine_map<(i) -> (i)>

func.func @main(%x: tensor<9x5xf32>) -> (tensor<9x5xf32>, tensor<5x5xf32>) {
  %zero = arith.constant 0.0 : f32
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %columns = arith.constant 5 : index
  %empty = tensor.empty() : tensor<5x5xf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%empty : tensor<5x5xf32>) -> tensor<5x5xf32>
  %scalar = tensor.empty() : tensor<f32>
  %nothing = linalg.fill ins(%zero : f32) outs(%scalar : tensor<f32>) -> tensor<f32>
  %q, %r = scf.for %j = %c0 to %columns step %c1 iter_args(%qs = %x, %rs = %zeros) -> (tensor<9x5xf32>, tensor<5x5xf32>) {
    %given = tensor.extract_slice %qs[0, %j] [9, 1] [1, 1] : tensor<9x5xf32> to tensor<9xf32>
    %left, %more = scf.for %k = %c0 to %j step %c1 iter_args(%column = %given, %table = %rs) -> (tensor<9xf32>, tensor<5x5xf32>) {
      %other = tensor.extract_slice %qs[0, %k] [9, 1] [1, 1] : tensor<9x5xf32> to tensor<9xf32>
      %dot = linalg.dot ins(%other, %column : tensor<9xf32>, tensor<9xf32>) outs(%nothing : tensor<f32>) -> tensor<f32>
      %share = tensor.extract %dot[] : tensor<f32>
      %next = tensor.insert %share into %table[%k, %j] : tensor<5x5xf32>
      %rest = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel"]}
          ins(%other : tensor<9xf32>) outs(%column : tensor<9xf32>) {
      ^bb0(%b: f32, %a: f32):
        %part = arith.mulf %b, %share : f32
        %d = arith.subf %a, %part : f32
        linalg.yield %d : f32
      } -> tensor<9xf32>
      scf.yield %rest, %next : tensor<9xf32>, tensor<5x5xf32>
    }
    %square = linalg.dot ins(%left, %left : tensor<9xf32>, tensor<9xf32>) outs(%nothing : tensor<f32>) -> tensor<f32>
    %sum = tensor.extract %square[] : tensor<f32>
    %length = math.sqrt %sum : f32
    %unit = linalg.generic {indexing_maps = [#map], iterator_types = ["parallel"]} outs(%left : tensor<9xf32>) {
    ^bb0(%a: f32):
      %each = arith.divf %a, %length : f32
      linalg.yield %each : f32
    } -> tensor<9xf32>
    %new_q = tensor.insert_slice %unit into %qs[0, %j] [9, 1] [1, 1] : tensor<9xf32> into tensor<9x5xf32>
    %new_r = tensor.insert %length into %more[%j, %j] : tensor<5x5xf32>
    scf.yield %new_q, %new_r : tensor<9x5xf32>, tensor<5x5xf32>
  }
  return %q, %r : tensor<9x5xf32>, tensor<5x5xf32>
}
