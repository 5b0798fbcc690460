// An element stands where as many different ones are less. Equal ones are written to the same place.
func.func @main(%x: tensor<37xi32>) -> (tensor<37xi32>, tensor<1xi32>) {
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %size = arith.constant 37 : index
  %rest = arith.constant -99 : i32
  %empty = tensor.empty() : tensor<37xi32>
  %init = linalg.fill ins(%rest : i32) outs(%empty : tensor<37xi32>) -> tensor<37xi32>
  %values, %count = scf.for %i = %zero to %size step %one iter_args(%so_far = %init, %found = %zero) -> (tensor<37xi32>, index) {
    %value = tensor.extract %x[%i] : tensor<37xi32>
    %place = scf.for %j = %zero to %size step %one iter_args(%less = %zero) -> (index) {
      %other = tensor.extract %x[%j] : tensor<37xi32>
      %same = scf.for %k = %zero to %j step %one iter_args(%equal = %zero) -> (index) {
        %earlier = tensor.extract %x[%k] : tensor<37xi32>
        %is_equal = arith.cmpi eq, %earlier, %other : i32
        %again = arith.select %is_equal, %one, %equal : index
        scf.yield %again : index
      }
      %first = arith.cmpi eq, %same, %zero : index
      %is_less = arith.cmpi slt, %other, %value : i32
      %counts = arith.andi %first, %is_less : i1
      %step = arith.select %counts, %one, %zero : index
      %sum = arith.addi %less, %step : index
      scf.yield %sum : index
    }
    %next = tensor.insert %value into %so_far[%place] : tensor<37xi32>
    %number = arith.addi %place, %one : index
    %most = arith.maxui %number, %found : index
    scf.yield %next, %most : tensor<37xi32>, index
  }
  %total = arith.index_cast %count : index to i32
  %counts = tensor.from_elements %total : tensor<1xi32>
  return %values, %counts : tensor<37xi32>, tensor<1xi32>
}
