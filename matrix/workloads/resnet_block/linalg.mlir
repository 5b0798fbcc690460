#image = affine_map<(n, c, h, w) -> (n, c, h, w)>
#channel = affine_map<(n, c, h, w) -> (c)>

func.func @main(%x: tensor<1x8x13x14xf32>,
                %w1: tensor<8x8x3x3xf32>, %scale1: tensor<8xf32>, %shift1: tensor<8xf32>,
                %w2: tensor<8x8x3x3xf32>, %scale2: tensor<8xf32>, %shift2: tensor<8xf32>) -> tensor<1x8x13x14xf32> {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<1x8x13x14xf32>
  %init = linalg.fill ins(%zero : f32) outs(%empty : tensor<1x8x13x14xf32>) -> tensor<1x8x13x14xf32>

  %padded1 = tensor.pad %x low[0, 0, 1, 1] high[0, 0, 1, 1] {
  ^bb0(%n: index, %c: index, %h: index, %v: index):
    tensor.yield %zero : f32
  } : tensor<1x8x13x14xf32> to tensor<1x8x15x16xf32>
  %conv1 = linalg.conv_2d_nchw_fchw {dilations = dense<1> : tensor<2xi64>, strides = dense<1> : tensor<2xi64>}
      ins(%padded1, %w1 : tensor<1x8x15x16xf32>, tensor<8x8x3x3xf32>)
      outs(%init : tensor<1x8x13x14xf32>) -> tensor<1x8x13x14xf32>
  %hidden = linalg.generic {indexing_maps = [#image, #channel, #channel, #image],
                            iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%conv1, %scale1, %shift1 : tensor<1x8x13x14xf32>, tensor<8xf32>, tensor<8xf32>)
      outs(%empty : tensor<1x8x13x14xf32>) {
  ^bb0(%conv: f32, %scale: f32, %shift: f32, %out: f32):
    %scaled = arith.mulf %conv, %scale : f32
    %norm = arith.addf %scaled, %shift : f32
    %relu = arith.maximumf %norm, %zero : f32
    linalg.yield %relu : f32
  } -> tensor<1x8x13x14xf32>

  %padded2 = tensor.pad %hidden low[0, 0, 1, 1] high[0, 0, 1, 1] {
  ^bb0(%n: index, %c: index, %h: index, %v: index):
    tensor.yield %zero : f32
  } : tensor<1x8x13x14xf32> to tensor<1x8x15x16xf32>
  %conv2 = linalg.conv_2d_nchw_fchw {dilations = dense<1> : tensor<2xi64>, strides = dense<1> : tensor<2xi64>}
      ins(%padded2, %w2 : tensor<1x8x15x16xf32>, tensor<8x8x3x3xf32>)
      outs(%init : tensor<1x8x13x14xf32>) -> tensor<1x8x13x14xf32>
  %y = linalg.generic {indexing_maps = [#image, #channel, #channel, #image, #image],
                       iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%conv2, %scale2, %shift2, %x : tensor<1x8x13x14xf32>, tensor<8xf32>, tensor<8xf32>, tensor<1x8x13x14xf32>)
      outs(%empty : tensor<1x8x13x14xf32>) {
  ^bb0(%conv: f32, %scale: f32, %shift: f32, %skip: f32, %out: f32):
    %scaled = arith.mulf %conv, %scale : f32
    %norm = arith.addf %scaled, %shift : f32
    %sum = arith.addf %norm, %skip : f32
    %relu = arith.maximumf %sum, %zero : f32
    linalg.yield %relu : f32
  } -> tensor<1x8x13x14xf32>
  return %y : tensor<1x8x13x14xf32>
}
