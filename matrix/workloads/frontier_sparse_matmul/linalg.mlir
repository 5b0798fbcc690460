func.func @main(%pos: tensor<25xi32>, %crd: tensor<276xi32>, %val: tensor<276xf32>, %x: tensor<40x19xf32>) -> tensor<24x19xf32> {
  %zero = arith.constant 0.0 : f32
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %rows = arith.constant 24 : index
  %columns = arith.constant 19 : index
  %empty = tensor.empty() : tensor<24x19xf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%empty : tensor<24x19xf32>) -> tensor<24x19xf32>
  %y = scf.for %i = %c0 to %rows step %c1 iter_args(%of_rows = %zeros) -> (tensor<24x19xf32>) {
    %next_row = arith.addi %i, %c1 : index
    %first = tensor.extract %pos[%i] : tensor<25xi32>
    %last = tensor.extract %pos[%next_row] : tensor<25xi32>
    %begin = arith.index_cast %first : i32 to index
    %end = arith.index_cast %last : i32 to index
    %of_elements = scf.for %p = %begin to %end step %c1 iter_args(%so_far = %of_rows) -> (tensor<24x19xf32>) {
      %value = tensor.extract %val[%p] : tensor<276xf32>
      %column = tensor.extract %crd[%p] : tensor<276xi32>
      %j = arith.index_cast %column : i32 to index
      %of_row = scf.for %k = %c0 to %columns step %c1 iter_args(%now = %so_far) -> (tensor<24x19xf32>) {
        %old = tensor.extract %now[%i, %k] : tensor<24x19xf32>
        %factor = tensor.extract %x[%j, %k] : tensor<40x19xf32>
        %product = arith.mulf %value, %factor : f32
        %sum = arith.addf %old, %product : f32
        %new = tensor.insert %sum into %now[%i, %k] : tensor<24x19xf32>
        scf.yield %new : tensor<24x19xf32>
      }
      scf.yield %of_row : tensor<24x19xf32>
    }
    scf.yield %of_elements : tensor<24x19xf32>
  }
  return %y : tensor<24x19xf32>
}
