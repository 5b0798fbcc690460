"builtin.module"() ({
  "func.func"() <{function_type = (tensor<37x129xf32>) -> tensor<37x129xf32>, sym_name = "main"}> ({
  ^bb0(%arg0: tensor<37x129xf32>):
    %0 = "arith.constant"() <{value = 0.000000e+00 : f32}> : () -> f32
    %1 = "arith.constant"() <{value = 0xFF800000 : f32}> : () -> f32
    %2 = "tensor.empty"() : () -> tensor<37xf32>
    %3 = "tensor.empty"() : () -> tensor<37x129xf32>
    %4 = "linalg.fill"(%1, %2) <{operandSegmentSizes = array<i32: 1, 1>}> ({
    ^bb0(%arg13: f32, %arg14: f32):
      "linalg.yield"(%arg13) : (f32) -> ()
    }) : (f32, tensor<37xf32>) -> tensor<37xf32>
    %5 = "linalg.reduce"(%arg0, %4) <{dimensions = array<i64: 1>}> ({
    ^bb0(%arg11: f32, %arg12: f32):
      %14 = "arith.maximumf"(%arg12, %arg11) <{fastmath = #arith.fastmath<none>}> : (f32, f32) -> f32
      "linalg.yield"(%14) : (f32) -> ()
    }) : (tensor<37x129xf32>, tensor<37xf32>) -> tensor<37xf32>
    %6 = "linalg.generic"(%arg0, %5, %3) <{indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = [#linalg.iterator_type<parallel>, #linalg.iterator_type<parallel>], operandSegmentSizes = array<i32: 2, 1>}> ({
    ^bb0(%arg8: f32, %arg9: f32, %arg10: f32):
      %12 = "arith.subf"(%arg8, %arg9) <{fastmath = #arith.fastmath<none>}> : (f32, f32) -> f32
      %13 = "math.exp"(%12) <{fastmath = #arith.fastmath<none>}> : (f32) -> f32
      "linalg.yield"(%13) : (f32) -> ()
    }) : (tensor<37x129xf32>, tensor<37xf32>, tensor<37x129xf32>) -> tensor<37x129xf32>
    %7 = "linalg.fill"(%0, %2) <{operandSegmentSizes = array<i32: 1, 1>}> ({
    ^bb0(%arg6: f32, %arg7: f32):
      "linalg.yield"(%arg6) : (f32) -> ()
    }) : (f32, tensor<37xf32>) -> tensor<37xf32>
    %8 = "linalg.reduce"(%6, %7) <{dimensions = array<i64: 1>}> ({
    ^bb0(%arg4: f32, %arg5: f32):
      %11 = "arith.addf"(%arg5, %arg4) <{fastmath = #arith.fastmath<none>}> : (f32, f32) -> f32
      "linalg.yield"(%11) : (f32) -> ()
    }) : (tensor<37x129xf32>, tensor<37xf32>) -> tensor<37xf32>
    %9 = "linalg.generic"(%6, %8, %3) <{indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = [#linalg.iterator_type<parallel>, #linalg.iterator_type<parallel>], operandSegmentSizes = array<i32: 2, 1>}> ({
    ^bb0(%arg1: f32, %arg2: f32, %arg3: f32):
      %10 = "arith.divf"(%arg1, %arg2) <{fastmath = #arith.fastmath<none>}> : (f32, f32) -> f32
      "linalg.yield"(%10) : (f32) -> ()
    }) : (tensor<37x129xf32>, tensor<37xf32>, tensor<37x129xf32>) -> tensor<37x129xf32>
    "func.return"(%9) : (tensor<37x129xf32>) -> ()
  }) : () -> ()
}) : () -> ()
