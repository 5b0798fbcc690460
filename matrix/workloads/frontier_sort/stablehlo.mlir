func.func @main(%x: tensor<11x67xf32>) -> (tensor<11x67xf32>, tensor<11x67xi32>) {
  %places = stablehlo.iota dim = 1 : tensor<11x67xi32>
  %values, %indices = "stablehlo.sort"(%x, %places) <{dimension = 1 : i64, is_stable = true}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>, %i: tensor<i32>, %j: tensor<i32>):
    %less = stablehlo.compare LT, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %less : tensor<i1>
  }) : (tensor<11x67xf32>, tensor<11x67xi32>) -> (tensor<11x67xf32>, tensor<11x67xi32>)
  return %values, %indices : tensor<11x67xf32>, tensor<11x67xi32>
}
