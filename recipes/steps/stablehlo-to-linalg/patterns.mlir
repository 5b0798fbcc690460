// The lowering to linalg has no pattern for stablehlo.get_dimension_size, which is how JAX asks for the size of an open dimension.
// It is tensor.dim; StableHLO fixes the result as a scalar tensor of i32.
pdl.pattern @dimension_size : benefit(1) {
  %int = type : i32
  %wide = type : i64
  %index = type : index
  %scalar = type : tensor<i32>
  %axis = attribute
  %tensor = operand
  %size = operation "stablehlo.get_dimension_size"(%tensor : !pdl.value) {"dimension" = %axis} -> (%scalar : !pdl.type)
  rewrite %size {
    %axis_op = operation "arith.constant" {"value" = %axis} -> (%wide : !pdl.type)
    %axis_value = result 0 of %axis_op
    %axis_cast = operation "arith.index_cast"(%axis_value : !pdl.value) -> (%index : !pdl.type)
    %axis_index = result 0 of %axis_cast
    %dim_op = operation "tensor.dim"(%tensor, %axis_index : !pdl.value, !pdl.value) -> (%index : !pdl.type)
    %dim = result 0 of %dim_op
    %dim_cast = operation "arith.index_cast"(%dim : !pdl.value) -> (%int : !pdl.type)
    %dim_int = result 0 of %dim_cast
    %answer = operation "tensor.from_elements"(%dim_int : !pdl.value) -> (%scalar : !pdl.type)
    replace %size with %answer
  }
}
