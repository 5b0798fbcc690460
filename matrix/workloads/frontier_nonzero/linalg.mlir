#map = affine_map<(i) -> (i)>

func.func @main(%x: tensor<31xi32>) -> (tensor<31xi32>, tensor<1xi32>) {
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %size = arith.constant 31 : index
  %nothing = arith.constant 0 : i32
  %none = arith.constant -1 : i32
  %empty = tensor.empty() : tensor<31xi32>
  // Each number is written where the next place is, and overwritten if it does not count.
  %written, %count = scf.for %i = %zero to %size step %one iter_args(%so_far = %empty, %found = %zero) -> (tensor<31xi32>, index) {
    %value = tensor.extract %x[%i] : tensor<31xi32>
    %number = arith.index_cast %i : index to i32
    %next = tensor.insert %number into %so_far[%found] : tensor<31xi32>
    %is = arith.cmpi ne, %value, %nothing : i32
    %step = arith.select %is, %one, %zero : index
    %more = arith.addi %found, %step : index
    scf.yield %next, %more : tensor<31xi32>, index
  }
  %out = tensor.empty() : tensor<31xi32>
  %places = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel"]}
      ins(%written : tensor<31xi32>) outs(%out : tensor<31xi32>) {
  ^bb0(%number: i32, %old: i32):
    %i = linalg.index 0 : index
    %within = arith.cmpi ult, %i, %count : index
    %each = arith.select %within, %number, %none : i32
    linalg.yield %each : i32
  } -> tensor<31xi32>
  %total = arith.index_cast %count : index to i32
  %counts = tensor.from_elements %total : tensor<1xi32>
  return %places, %counts : tensor<31xi32>, tensor<1xi32>
}
