func.func @main(%x: tensor<3x4x5x6x7xf32>) -> (tensor<3x5x7xf32>, tensor<3x4x5x6xf32>, tensor<4x6xf32>) {
  %shape1 = tosa.const_shape {values = dense<[3, 5, 7]> : tensor<3xindex>} : () -> !tosa.shape<3>
  %shape2 = tosa.const_shape {values = dense<[3, 4, 5, 6]> : tensor<4xindex>} : () -> !tosa.shape<4>
  %shape3 = tosa.const_shape {values = dense<[4, 6]> : tensor<2xindex>} : () -> !tosa.shape<2>
  %largest1 = tosa.reduce_max %x {axis = 1 : i32} : (tensor<3x4x5x6x7xf32>) -> tensor<3x1x5x6x7xf32>
  %largest3 = tosa.reduce_max %largest1 {axis = 3 : i32} : (tensor<3x1x5x6x7xf32>) -> tensor<3x1x5x1x7xf32>
  %product4 = tosa.reduce_product %x {axis = 4 : i32} : (tensor<3x4x5x6x7xf32>) -> tensor<3x4x5x6x1xf32>
  %total0 = tosa.reduce_sum %x {axis = 0 : i32} : (tensor<3x4x5x6x7xf32>) -> tensor<1x4x5x6x7xf32>
  %total2 = tosa.reduce_sum %total0 {axis = 2 : i32} : (tensor<1x4x5x6x7xf32>) -> tensor<1x4x1x6x7xf32>
  %total4 = tosa.reduce_sum %total2 {axis = 4 : i32} : (tensor<1x4x1x6x7xf32>) -> tensor<1x4x1x6x1xf32>
  %largest = tosa.reshape %largest3, %shape1 : (tensor<3x1x5x1x7xf32>, !tosa.shape<3>) -> tensor<3x5x7xf32>
  %product = tosa.reshape %product4, %shape2 : (tensor<3x4x5x6x1xf32>, !tosa.shape<4>) -> tensor<3x4x5x6xf32>
  %total = tosa.reshape %total4, %shape3 : (tensor<1x4x1x6x1xf32>, !tosa.shape<2>) -> tensor<4x6xf32>
  return %largest, %product, %total : tensor<3x5x7xf32>, tensor<3x4x5x6xf32>, tensor<4x6xf32>
}
