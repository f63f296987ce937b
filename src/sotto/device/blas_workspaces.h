// What cuBLAS keeps to work in. It is allocated where the first product is computed, and stays: it
// would hold an arena that ends before the program does.
#pragma once

namespace sotto::device {

// Gives it back. Without CUDA in the build it throws ConfigError.
void release_blas_workspaces();

}  // namespace sotto::device
