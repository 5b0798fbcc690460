func.func private @quick_gelu(%x: tensor<9x13xf32>) -> tensor<9x13xf32> {
  %factor = stablehlo.constant dense<1.7> : tensor<9x13xf32>
  %scaled = stablehlo.multiply %x, %factor : tensor<9x13xf32>
  %share = stablehlo.logistic %scaled : tensor<9x13xf32>
  %y = stablehlo.multiply %x, %share : tensor<9x13xf32>
  return %y : tensor<9x13xf32>
}

func.func @main(%x: tensor<9x13xf32>) -> tensor<9x13xf32> {
  %y = stablehlo.composite "frontier.quick_gelu" %x {decomposition = @quick_gelu} : (tensor<9x13xf32>) -> tensor<9x13xf32>
  return %y : tensor<9x13xf32>
}
