func.func @main(%x: tensor<53xui16>, %y: tensor<53xui32>, %z: tensor<53xui64>)
    -> (tensor<53xui32>, tensor<53xui64>, tensor<53xui16>, tensor<53xui32>, tensor<53xf32>) {
  %three = stablehlo.constant dense<3> : tensor<53xui16>
  %half = stablehlo.constant dense<16> : tensor<53xui32>
  %wide = stablehlo.convert %x : (tensor<53xui16>) -> tensor<53xui32>
  %quotient = stablehlo.divide %y, %wide : tensor<53xui32>
  %long = stablehlo.convert %y : (tensor<53xui32>) -> tensor<53xui64>
  %remainder = stablehlo.remainder %z, %long : tensor<53xui64>
  %shifted = stablehlo.shift_right_logical %x, %three : tensor<53xui16>
  %high = stablehlo.shift_left %wide, %half : tensor<53xui32>
  %larger = stablehlo.maximum %y, %high : tensor<53xui32>
  %number = stablehlo.convert %y : (tensor<53xui32>) -> tensor<53xf32>
  return %quotient, %remainder, %shifted, %larger, %number
      : tensor<53xui32>, tensor<53xui64>, tensor<53xui16>, tensor<53xui32>, tensor<53xf32>
}
