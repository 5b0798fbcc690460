"builtin.module"() ({
  "func.func"() <{function_type = (tensor<2x5x17x16xf32>, tensor<8x5x3x3xf32>, tensor<8xf32>) -> tensor<2x8x9x8xf32>, sym_name = "main"}> ({
  ^bb0(%arg0: tensor<2x5x17x16xf32>, %arg1: tensor<8x5x3x3xf32>, %arg2: tensor<8xf32>):
    %0 = "arith.constant"() <{value = 0.000000e+00 : f32}> : () -> f32
    %1 = "tensor.pad"(%arg0) <{operandSegmentSizes = array<i32: 1, 0, 0>, static_high = array<i64: 0, 0, 1, 1>, static_low = array<i64: 0, 0, 1, 1>}> ({
    ^bb0(%arg8: index, %arg9: index, %arg10: index, %arg11: index):
      "tensor.yield"(%0) : (f32) -> ()
    }) : (tensor<2x5x17x16xf32>) -> tensor<2x5x19x18xf32>
    %2 = "tensor.empty"() : () -> tensor<2x8x9x8xf32>
    %3 = "linalg.broadcast"(%arg2, %2) <{dimensions = array<i64: 0, 2, 3>}> ({
    ^bb0(%arg6: f32, %arg7: f32):
      "linalg.yield"(%arg6) : (f32) -> ()
    }) : (tensor<8xf32>, tensor<2x8x9x8xf32>) -> tensor<2x8x9x8xf32>
    %4 = "linalg.conv_2d_nchw_fchw"(%1, %arg1, %3) <{dilations = dense<1> : tensor<2xi64>, operandSegmentSizes = array<i32: 2, 1>, strides = dense<2> : tensor<2xi64>}> ({
    ^bb0(%arg3: f32, %arg4: f32, %arg5: f32):
      %5 = "arith.mulf"(%arg3, %arg4) <{fastmath = #arith.fastmath<none>}> : (f32, f32) -> f32
      %6 = "arith.addf"(%arg5, %5) <{fastmath = #arith.fastmath<none>}> : (f32, f32) -> f32
      "linalg.yield"(%6) : (f32) -> ()
    }) {linalg.memoized_indexing_maps = [affine_map<(d0, d1, d2, d3, d4, d5, d6) -> (d0, d4, d2 * 2 + d5, d3 * 2 + d6)>, affine_map<(d0, d1, d2, d3, d4, d5, d6) -> (d1, d4, d5, d6)>, affine_map<(d0, d1, d2, d3, d4, d5, d6) -> (d0, d1, d2, d3)>]} : (tensor<2x5x19x18xf32>, tensor<8x5x3x3xf32>, tensor<2x8x9x8xf32>) -> tensor<2x8x9x8xf32>
    "func.return"(%4) : (tensor<2x8x9x8xf32>) -> ()
  }) : () -> ()
}) : () -> ()
