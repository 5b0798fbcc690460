func.func @main(%i: tensor<11x6xi32>, %w: tensor<37x19xf32>) -> tensor<11x19xf32> {
  %one = tosa.const_shape {values = dense<[1, 37, 19]> : tensor<3xindex>} : () -> !tosa.shape<3>
  %flat = tosa.const_shape {values = dense<[1, 66]> : tensor<2xindex>} : () -> !tosa.shape<2>
  %bags = tosa.const_shape {values = dense<[11, 6, 19]> : tensor<3xindex>} : () -> !tosa.shape<3>
  %sums = tosa.const_shape {values = dense<[11, 19]> : tensor<2xindex>} : () -> !tosa.shape<2>
  %table = tosa.reshape %w, %one : (tensor<37x19xf32>, !tosa.shape<3>) -> tensor<1x37x19xf32>
  %numbers = tosa.reshape %i, %flat : (tensor<11x6xi32>, !tosa.shape<2>) -> tensor<1x66xi32>
  %rows = tosa.gather %table, %numbers : (tensor<1x37x19xf32>, tensor<1x66xi32>) -> tensor<1x66x19xf32>
  %each = tosa.reshape %rows, %bags : (tensor<1x66x19xf32>, !tosa.shape<3>) -> tensor<11x6x19xf32>
  %sum = tosa.reduce_sum %each {axis = 1 : i32} : (tensor<11x6x19xf32>) -> tensor<11x1x19xf32>
  %y = tosa.reshape %sum, %sums : (tensor<11x1x19xf32>, !tosa.shape<2>) -> tensor<11x19xf32>
  return %y : tensor<11x19xf32>
}
