func.func @main(%x: tensor<37x129xf32>) -> tensor<37x129xf32> {
  %largest = tosa.reduce_max %x {axis = 1 : i32} : (tensor<37x129xf32>) -> tensor<37x1xf32>
  %d = tosa.sub %x, %largest : (tensor<37x129xf32>, tensor<37x1xf32>) -> tensor<37x129xf32>
  %e = tosa.exp %d : (tensor<37x129xf32>) -> tensor<37x129xf32>
  %sum = tosa.reduce_sum %e {axis = 1 : i32} : (tensor<37x129xf32>) -> tensor<37x1xf32>
  %r = tosa.reciprocal %sum : (tensor<37x1xf32>) -> tensor<37x1xf32>
  %shift = "tosa.const"() <{values = dense<0> : tensor<1xi8>}> : () -> tensor<1xi8>
  %y = tosa.mul %e, %r, %shift : (tensor<37x129xf32>, tensor<37x1xf32>, tensor<1xi8>) -> tensor<37x129xf32>
  return %y : tensor<37x129xf32>
}
