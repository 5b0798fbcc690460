// The gathered rows of the dense matrix are multiplied by a matrix that has the value of an element in the row that it belongs to.
func.func @main(%pos: tensor<25xi32>, %crd: tensor<276xi32>, %val: tensor<276xf32>, %x: tensor<40x19xf32>) -> tensor<24x19xf32> {
  %places = stablehlo.reshape %crd : (tensor<276xi32>) -> tensor<276x1xi32>
  %rows = "stablehlo.gather"(%x, %places) <{dimension_numbers = #stablehlo.gather<offset_dims = [1],
      collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1, 19>}>
      : (tensor<40x19xf32>, tensor<276x1xi32>) -> tensor<276x19xf32>
  %begin = stablehlo.slice %pos [0:24] : (tensor<25xi32>) -> tensor<24xi32>
  %end = stablehlo.slice %pos [1:25] : (tensor<25xi32>) -> tensor<24xi32>
  %begins = stablehlo.broadcast_in_dim %begin, dims = [0] : (tensor<24xi32>) -> tensor<24x276xi32>
  %ends = stablehlo.broadcast_in_dim %end, dims = [0] : (tensor<24xi32>) -> tensor<24x276xi32>
  %numbers = stablehlo.iota dim = 1 : tensor<24x276xi32>
  %after = stablehlo.compare GE, %numbers, %begins : (tensor<24x276xi32>, tensor<24x276xi32>) -> tensor<24x276xi1>
  %before = stablehlo.compare LT, %numbers, %ends : (tensor<24x276xi32>, tensor<24x276xi32>) -> tensor<24x276xi1>
  %within = stablehlo.and %after, %before : tensor<24x276xi1>
  %values = stablehlo.broadcast_in_dim %val, dims = [1] : (tensor<276xf32>) -> tensor<24x276xf32>
  %zeros = stablehlo.constant dense<0.0> : tensor<24x276xf32>
  %wide = stablehlo.select %within, %values, %zeros : tensor<24x276xi1>, tensor<24x276xf32>
  %y = stablehlo.dot_general %wide, %rows, contracting_dims = [1] x [0] : (tensor<24x276xf32>, tensor<276x19xf32>) -> tensor<24x19xf32>
  return %y : tensor<24x19xf32>
}
