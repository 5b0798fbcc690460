// A dialect of one operation, a pass that lowers it, and the program that runs the pass.
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/DialectImplementation.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "llvm/Support/CommandLine.h"

#include "ToyDialect.h.inc"
#define GET_OP_CLASSES
#include "Toy.h.inc"

#include "ToyDialect.cpp.inc"
#define GET_OP_CLASSES
#include "Toy.cpp.inc"

void toy::ToyDialect::initialize() {
  addOperations<
#define GET_OP_LIST
#include "Toy.cpp.inc"
      >();
}

namespace {
struct ToyToArith : mlir::PassWrapper<ToyToArith, mlir::OperationPass<>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(ToyToArith)
  llvm::StringRef getArgument() const override { return "toy-to-arith"; }
  llvm::StringRef getDescription() const override { return "Turn toy.twice into arith.addf."; }
  void getDependentDialects(mlir::DialectRegistry &registry) const override {
    registry.insert<mlir::arith::ArithDialect>();
  }
  void runOnOperation() override {
    getOperation()->walk([](toy::TwiceOp op) {
      mlir::Value sum = mlir::OpBuilder(op).create<mlir::arith::AddFOp>(op.getLoc(), op.getX(), op.getX());
      op.replaceAllUsesWith(sum);
      op.erase();
    });
  }
};
} // namespace

int main(int argc, char **argv) {
  llvm::cl::AddExtraVersionPrinter([](llvm::raw_ostream &out) { out << "toy-opt 0.1.0\n"; });
  mlir::PassRegistration<ToyToArith>();
  mlir::DialectRegistry registry;
  registry.insert<mlir::arith::ArithDialect, mlir::func::FuncDialect, toy::ToyDialect>();
  return mlir::asMainReturnCode(mlir::MlirOptMain(argc, argv, "The optimizer of toy\n", registry));
}
