/* The driver as a program: the kernel is linked with it. */
#include "driver.h"

Kernel _mlir_ciface_main;

int main(int argc, char **argv) { return drive(_mlir_ciface_main, argc, argv); }
