func.func @main(%x: tensor<3x5x4x7xf32>, %mean: tensor<5xf32>, %variance: tensor<5xf32>, %w: tensor<5xf32>, %b: tensor<5xf32>)
    -> tensor<3x5x4x7xf32> {
  %shift = "tosa.const"() <{values = dense<0> : tensor<1xi8>}> : () -> tensor<1xi8>
  %epsilon = "tosa.const"() <{values = dense<1.0e-5> : tensor<1xf32>}> : () -> tensor<1xf32>
  %channels = tosa.const_shape {values = dense<[1, 5, 1, 1]> : tensor<4xindex>} : () -> !tosa.shape<4>
  %more = tosa.add %variance, %epsilon : (tensor<5xf32>, tensor<1xf32>) -> tensor<5xf32>
  %root = tosa.rsqrt %more : (tensor<5xf32>) -> tensor<5xf32>
  %scale = tosa.mul %w, %root, %shift : (tensor<5xf32>, tensor<5xf32>, tensor<1xi8>) -> tensor<5xf32>
  %means = tosa.reshape %mean, %channels : (tensor<5xf32>, !tosa.shape<4>) -> tensor<1x5x1x1xf32>
  %scales = tosa.reshape %scale, %channels : (tensor<5xf32>, !tosa.shape<4>) -> tensor<1x5x1x1xf32>
  %shifts = tosa.reshape %b, %channels : (tensor<5xf32>, !tosa.shape<4>) -> tensor<1x5x1x1xf32>
  %centred = tosa.sub %x, %means : (tensor<3x5x4x7xf32>, tensor<1x5x1x1xf32>) -> tensor<3x5x4x7xf32>
  %normal = tosa.mul %centred, %scales, %shift : (tensor<3x5x4x7xf32>, tensor<1x5x1x1xf32>, tensor<1xi8>) -> tensor<3x5x4x7xf32>
  %y = tosa.add %normal, %shifts : (tensor<3x5x4x7xf32>, tensor<1x5x1x1xf32>) -> tensor<3x5x4x7xf32>
  return %y : tensor<3x5x4x7xf32>
}
