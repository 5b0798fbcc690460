func.func @main(%x: tensor<31xi32>) -> (tensor<31xi32>, tensor<1xi32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %zeros = stablehlo.constant dense<0> : tensor<31xi32>
  %one = stablehlo.constant dense<1> : tensor<31xi32>
  %last = stablehlo.constant dense<31> : tensor<31xi32>
  %rest = stablehlo.constant dense<-1> : tensor<31xi32>
  %found = stablehlo.compare NE, %x, %zeros : (tensor<31xi32>, tensor<31xi32>) -> tensor<31xi1>
  %ones = stablehlo.convert %found : (tensor<31xi1>) -> tensor<31xi32>
  %running = "stablehlo.reduce_window"(%ones, %zero) <{window_dimensions = array<i64: 31>, padding = dense<[[30, 0]]> : tensor<1x2xi64>}> ({
  ^bb0(%a: tensor<i32>, %b: tensor<i32>):
    %sum = stablehlo.add %a, %b : tensor<i32>
    stablehlo.return %sum : tensor<i32>
  }) : (tensor<31xi32>, tensor<i32>) -> tensor<31xi32>
  // What is zero goes to a place after the last, and is dropped.
  %before = stablehlo.subtract %running, %one : tensor<31xi32>
  %target = stablehlo.select %found, %before, %last : tensor<31xi1>, tensor<31xi32>
  %targets = stablehlo.reshape %target : (tensor<31xi32>) -> tensor<31x1xi32>
  %numbers = stablehlo.iota dim = 0 : tensor<31xi32>
  %places = "stablehlo.scatter"(%rest, %targets, %numbers) <{scatter_dimension_numbers = #stablehlo.scatter<
      inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
  ^bb0(%old: tensor<i32>, %new: tensor<i32>):
    stablehlo.return %new : tensor<i32>
  }) : (tensor<31xi32>, tensor<31x1xi32>, tensor<31xi32>) -> tensor<31xi32>
  %count = stablehlo.slice %running [30:31] : (tensor<31xi32>) -> tensor<1xi32>
  return %places, %count : tensor<31xi32>, tensor<1xi32>
}
