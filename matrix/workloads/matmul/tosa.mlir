// TOSA multiplies batches of matrices.
func.func @main(%x: tensor<65x130xf32>, %w: tensor<130x97xf32>) -> tensor<65x97xf32> {
  %zero = "tosa.const"() <{values = dense<0.0> : tensor<1xf32>}> : () -> tensor<1xf32>
  %xs = tosa.const_shape {values = dense<[1, 65, 130]> : tensor<3xindex>} : () -> !tosa.shape<3>
  %ws = tosa.const_shape {values = dense<[1, 130, 97]> : tensor<3xindex>} : () -> !tosa.shape<3>
  %ys = tosa.const_shape {values = dense<[65, 97]> : tensor<2xindex>} : () -> !tosa.shape<2>
  %a = tosa.reshape %x, %xs : (tensor<65x130xf32>, !tosa.shape<3>) -> tensor<1x65x130xf32>
  %b = tosa.reshape %w, %ws : (tensor<130x97xf32>, !tosa.shape<3>) -> tensor<1x130x97xf32>
  %c = tosa.matmul %a, %b, %zero, %zero
    : (tensor<1x65x130xf32>, tensor<1x130x97xf32>, tensor<1xf32>, tensor<1xf32>) -> tensor<1x65x97xf32>
  %y = tosa.reshape %c, %ys : (tensor<1x65x97xf32>, !tosa.shape<2>) -> tensor<65x97xf32>
  return %y : tensor<65x97xf32>
}
