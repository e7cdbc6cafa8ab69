// Element types, for the emulated cuBLAS.
#pragma once

enum cudaDataType_t { CUDA_R_32F = 0, CUDA_R_64F = 1, CUDA_R_16BF = 14 };
