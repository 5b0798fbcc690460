func.func @main(%i: tensor<40xi32>, %offsets: tensor<9xi32>, %w: tensor<37x19xf32>) -> tensor<9x19xf32> {
  %zero = arith.constant 0.0 : f32
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %bags = arith.constant 9 : index
  %rows = arith.constant 40 : index
  %width = arith.constant 19 : index
  %empty = tensor.empty() : tensor<9x19xf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%empty : tensor<9x19xf32>) -> tensor<9x19xf32>
  %y = scf.for %b = %c0 to %bags step %c1 iter_args(%of_bags = %zeros) -> (tensor<9x19xf32>) {
    %first = tensor.extract %offsets[%b] : tensor<9xi32>
    %begin = arith.index_cast %first : i32 to index
    %next = arith.addi %b, %c1 : index
    %is_last = arith.cmpi eq, %next, %bags : index
    %safe = arith.select %is_last, %b, %next : index
    %following = tensor.extract %offsets[%safe] : tensor<9xi32>
    %inner = arith.index_cast %following : i32 to index
    %end = arith.select %is_last, %rows, %inner : index
    %of_rows = scf.for %t = %begin to %end step %c1 iter_args(%so_far = %of_bags) -> (tensor<9x19xf32>) {
      %number = tensor.extract %i[%t] : tensor<40xi32>
      %row = arith.index_cast %number : i32 to index
      %of_row = scf.for %e = %c0 to %width step %c1 iter_args(%now = %so_far) -> (tensor<9x19xf32>) {
        %old = tensor.extract %now[%b, %e] : tensor<9x19xf32>
        %each = tensor.extract %w[%row, %e] : tensor<37x19xf32>
        %sum = arith.addf %old, %each : f32
        %new = tensor.insert %sum into %now[%b, %e] : tensor<9x19xf32>
        scf.yield %new : tensor<9x19xf32>
      }
      scf.yield %of_row : tensor<9x19xf32>
    }
    scf.yield %of_rows : tensor<9x19xf32>
  }
  return %y : tensor<9x19xf32>
}
