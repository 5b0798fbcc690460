// An element stands where as many are less, or equal and before it.
func.func @main(%x: tensor<11x67xf32>) -> (tensor<11x67xf32>, tensor<11x67xi32>) {
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %rows = arith.constant 11 : index
  %columns = arith.constant 67 : index
  %floats = tensor.empty() : tensor<11x67xf32>
  %numbers = tensor.empty() : tensor<11x67xi32>
  %values, %indices = scf.for %r = %zero to %rows step %one
      iter_args(%row_values = %floats, %row_indices = %numbers) -> (tensor<11x67xf32>, tensor<11x67xi32>) {
    %more_values, %more_indices = scf.for %c = %zero to %columns step %one
        iter_args(%some_values = %row_values, %some_indices = %row_indices) -> (tensor<11x67xf32>, tensor<11x67xi32>) {
      %value = tensor.extract %x[%r, %c] : tensor<11x67xf32>
      %place = scf.for %other = %zero to %columns step %one iter_args(%count = %zero) -> (index) {
        %compared = tensor.extract %x[%r, %other] : tensor<11x67xf32>
        %less = arith.cmpf olt, %compared, %value : f32
        %equal = arith.cmpf oeq, %compared, %value : f32
        %before = arith.cmpi ult, %other, %c : index
        %tie = arith.andi %equal, %before : i1
        %counts = arith.ori %less, %tie : i1
        %step = arith.select %counts, %one, %zero : index
        %next = arith.addi %count, %step : index
        scf.yield %next : index
      }
      %index = arith.index_cast %c : index to i32
      %new_values = tensor.insert %value into %some_values[%r, %place] : tensor<11x67xf32>
      %new_indices = tensor.insert %index into %some_indices[%r, %place] : tensor<11x67xi32>
      scf.yield %new_values, %new_indices : tensor<11x67xf32>, tensor<11x67xi32>
    }
    scf.yield %more_values, %more_indices : tensor<11x67xf32>, tensor<11x67xi32>
  }
  return %values, %indices : tensor<11x67xf32>, tensor<11x67xi32>
}
