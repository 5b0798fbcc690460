func.func @main(%x: tensor<13x41xi8>) -> tensor<13x41xi8> {
  %shift = "tosa.const"() <{values = dense<0> : tensor<1xi8>}> : () -> tensor<1xi8>
  %step = "tosa.const"() <{values = dense<0.0625> : tensor<1x1xf32>}> : () -> tensor<1x1xf32>
  %scale = "tosa.const"() <{values = dense<256.0> : tensor<1x1xf32>}> : () -> tensor<1x1xf32>
  %zero = "tosa.const"() <{values = dense<128.0> : tensor<1x1xf32>}> : () -> tensor<1x1xf32>
  %numbers = tosa.cast %x : (tensor<13x41xi8>) -> tensor<13x41xf32>
  %logits = tosa.mul %numbers, %step, %shift : (tensor<13x41xf32>, tensor<1x1xf32>, tensor<1xi8>) -> tensor<13x41xf32>
  %largest = tosa.reduce_max %logits {axis = 1 : i32} : (tensor<13x41xf32>) -> tensor<13x1xf32>
  %d = tosa.sub %logits, %largest : (tensor<13x41xf32>, tensor<13x1xf32>) -> tensor<13x41xf32>
  %e = tosa.exp %d : (tensor<13x41xf32>) -> tensor<13x41xf32>
  %sum = tosa.reduce_sum %e {axis = 1 : i32} : (tensor<13x41xf32>) -> tensor<13x1xf32>
  %inverse = tosa.reciprocal %sum : (tensor<13x1xf32>) -> tensor<13x1xf32>
  %share = tosa.mul %e, %inverse, %shift : (tensor<13x41xf32>, tensor<13x1xf32>, tensor<1xi8>) -> tensor<13x41xf32>
  %steps = tosa.mul %share, %scale, %shift : (tensor<13x41xf32>, tensor<1x1xf32>, tensor<1xi8>) -> tensor<13x41xf32>
  %moved = tosa.sub %steps, %zero : (tensor<13x41xf32>, tensor<1x1xf32>) -> tensor<13x41xf32>
  // It rounds to the nearest and to even, and saturates.
  %y = tosa.cast %moved : (tensor<13x41xf32>) -> tensor<13x41xi8>
  return %y : tensor<13x41xi8>
}
