#all = affine_map<(i, j) -> (i, j)>
#row = affine_map<(i, j) -> (i)>

func.func @main(%x: tensor<13x41xi8>) -> tensor<13x41xi8> {
  %zero = arith.constant 0.0 : f32
  %lowest = arith.constant -128 : i8
  %step = arith.constant 0.0625 : f32
  %scale = arith.constant 256.0 : f32
  %least = arith.constant -128.0 : f32
  %most = arith.constant 127.0 : f32
  %bytes = tensor.empty() : tensor<13xi8>
  %floats = tensor.empty() : tensor<13xf32>
  %low = linalg.fill ins(%lowest : i8) outs(%bytes : tensor<13xi8>) -> tensor<13xi8>
  %zeros = linalg.fill ins(%zero : f32) outs(%floats : tensor<13xf32>) -> tensor<13xf32>
  %largest = linalg.reduce {arith.maxsi} ins(%x : tensor<13x41xi8>) outs(%low : tensor<13xi8>) dimensions = [1]
  %table = tensor.empty() : tensor<13x41xf32>
  %e = linalg.generic {indexing_maps = [#all, #row, #all], iterator_types = ["parallel", "parallel"]}
      ins(%x, %largest : tensor<13x41xi8>, tensor<13xi8>) outs(%table : tensor<13x41xf32>) {
  ^bb0(%a: i8, %top: i8, %old: f32):
    %wide = arith.extsi %a : i8 to i32
    %wide_top = arith.extsi %top : i8 to i32
    %d = arith.subi %wide, %wide_top : i32
    %number = arith.sitofp %d : i32 to f32
    %logit = arith.mulf %number, %step : f32
    %power = math.exp %logit : f32
    linalg.yield %power : f32
  } -> tensor<13x41xf32>
  %sum = linalg.reduce {arith.addf} ins(%e : tensor<13x41xf32>) outs(%zeros : tensor<13xf32>) dimensions = [1]
  %out = tensor.empty() : tensor<13x41xi8>
  %y = linalg.generic {indexing_maps = [#all, #row, #all], iterator_types = ["parallel", "parallel"]}
      ins(%e, %sum : tensor<13x41xf32>, tensor<13xf32>) outs(%out : tensor<13x41xi8>) {
  ^bb0(%a: f32, %s: f32, %old: i8):
    %share = arith.divf %a, %s : f32
    %steps = arith.mulf %share, %scale : f32
    %whole = math.roundeven %steps : f32
    %moved = arith.addf %whole, %least : f32
    %held = arith.minimumf %moved, %most : f32
    %each = arith.fptosi %held : f32 to i8
    linalg.yield %each : i8
  } -> tensor<13x41xi8>
  return %y : tensor<13x41xi8>
}
