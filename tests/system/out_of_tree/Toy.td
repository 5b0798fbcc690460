include "mlir/IR/OpBase.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

def Toy_Dialect : Dialect {
  let name = "toy";
  let cppNamespace = "::toy";
}

def Toy_TwiceOp : Op<Toy_Dialect, "twice", [Pure, AllTypesMatch<["x", "y"]>]> {
  let summary = "adds a tensor to itself";
  let arguments = (ins AnyStaticShapeTensor:$x);
  let results = (outs AnyStaticShapeTensor:$y);
  let assemblyFormat = "$x attr-dict `:` type($x)";
}
