#include "framework/kernels/cuda/cublas.h"

#include <fmt/format.h>

#include <climits>
#include <memory>
#include <type_traits>

#include "framework/base/error.h"

namespace lockstep::kernels::cuda {
namespace {

constexpr std::size_t workspace_bytes = std::size_t{32} << 20;  // what cuBLAS advises for Hopper

int to_int(std::int64_t extent) {
  if (extent > INT_MAX) {
    throw UsageError(fmt::format("a matrix product has an extent of {}, cuBLAS takes up to {}",
                                 extent, INT_MAX));
  }
  return static_cast<int>(extent);
}

cublasOperation_t operation(const BlasMatrix& matrix) {
  return matrix.transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
}

cudaDataType_t data_type(DType dtype) {
  switch (dtype) {
    case DType::float32:
      return CUDA_R_32F;
    case DType::float64:
      return CUDA_R_64F;
    case DType::bfloat16:
      return CUDA_R_16BF;
    default:
      throw UsageError(
          fmt::format("a matrix product has operands of {}, cuBLAS takes float32, "
                      "float64 and bfloat16 here",
                      base::name_of(dtype)));
  }
}

// Rows and columns of op(matrix) as they are stored.
std::pair<std::uint64_t, std::uint64_t> stored(const BlasMatrix& matrix, std::int64_t rows,
                                               std::int64_t columns) {
  const auto r = static_cast<std::uint64_t>(rows), c = static_cast<std::uint64_t>(columns);
  return matrix.transposed ? std::pair{c, r} : std::pair{r, c};
}

// The largest power of two up to 16 that divides all addresses, in bytes.
std::uint32_t common_alignment(std::initializer_list<const void*> addresses) {
  std::uintptr_t bits = 16;
  for (const void* const address : addresses) bits |= reinterpret_cast<std::uintptr_t>(address);
  return static_cast<std::uint32_t>(bits & -bits);
}

}  // namespace

Cublas::Cublas(device::Context& context)
    : library_(CublasLibrary::get()),
      stream_(&device::cuda_stream(context.compute_stream())),
      memory_(stream_->place()) {
  stream_->activate();
  workspace_ = memory_.allocate(workspace_bytes);
  check(library_.create(&handle_), "cublasCreate");
  use_stream(*stream_);
}

Cublas::~Cublas() {
  if (handle_ != nullptr) library_.destroy(handle_);
  memory_.deallocate(workspace_, workspace_bytes);
}

void Cublas::check(cublasStatus_t status, const char* call) const {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  throw device::CudaError(cudaErrorUnknown,
                          fmt::format("{} on cuda:{}, rank {}: {}", call, stream_->place().device,
                                      stream_->place().rank, library_.status_name(status)));
}

void Cublas::use_stream(const device::CudaStream& stream) {
  stream_ = &stream;
  check(library_.set_stream(handle_, stream.native()), "cublasSetStream");
  // Another stream made cuBLAS forget it.
  check(library_.set_workspace(handle_, workspace_, workspace_bytes), "cublasSetWorkspace");
}

void Cublas::set_precision(ProductPrecision precision) {
  precision_ = precision;
  choices_.clear();
}

cublasComputeType_t Cublas::compute_type(const BlasProduct& product) const {
  if (product.result == DType::float64) return CUBLAS_COMPUTE_64F;
  if (product.factors == DType::bfloat16) return CUBLAS_COMPUTE_32F;
  switch (precision_) {
    case ProductPrecision::float32:
      return CUBLAS_COMPUTE_32F;
    case ProductPrecision::tf32:
      return CUBLAS_COMPUTE_32F_FAST_TF32;
    case ProductPrecision::bfloat16:
      return CUBLAS_COMPUTE_32F_FAST_16BF;
  }
  __builtin_unreachable();
}

void Cublas::multiply(const BlasProduct& product) {
  const bool wide = product.result == DType::float64;
  const double one = 1;
  const float one_float = 1, beta_float = static_cast<float>(product.beta);
  const void* const alpha = wide ? static_cast<const void*>(&one) : &one_float;
  const void* const beta = wide ? static_cast<const void*>(&product.beta) : &beta_float;
  const cudaDataType_t type = data_type(product.factors);
  stream_->activate();
  check(library_.gemm_strided_batched(
            handle_, operation(product.a), operation(product.b), to_int(product.m),
            to_int(product.n), to_int(product.k), alpha, product.a.data, type,
            to_int(product.a.leading), product.a.batch_stride, product.b.data, type,
            to_int(product.b.leading), product.b.batch_stride, beta, product.c.data,
            data_type(product.result), to_int(product.c.leading), product.c.batch_stride,
            to_int(product.batch), compute_type(product), CUBLAS_GEMM_DEFAULT),
        "cublasGemmStridedBatchedEx");
}

bool Cublas::multiply(const BlasProduct& product, const Epilogue& epilogue) {
  const auto& [m, n, k, batch, a, b, c, beta, factors, result] = product;
  stream_->activate();
  // Descriptions are plain memory of the host; the unique_ptrs only free them.
  const auto own = [](auto* pointer, auto destroy) {
    return std::unique_ptr<std::remove_pointer_t<decltype(pointer)>, decltype(destroy)>(pointer,
                                                                                        destroy);
  };
  cublasLtMatmulDesc_t made = nullptr;
  check(library_.operation_create(&made, compute_type(product), CUDA_R_32F),
        "cublasLtMatmulDescCreate");
  const auto description = own(made, library_.operation_destroy);
  const auto set = [&](cublasLtMatmulDescAttributes_t attribute, const auto& value) {
    check(library_.operation_set(description.get(), attribute, &value, sizeof value),
          "cublasLtMatmulDescSetAttribute");
  };
  set(CUBLASLT_MATMUL_DESC_TRANSA, operation(a));
  set(CUBLASLT_MATMUL_DESC_TRANSB, operation(b));
  set(CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue.kind);
  if (epilogue.bias != nullptr) set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, epilogue.bias);
  if (epilogue.saved != nullptr) {
    set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, epilogue.saved);
    set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, epilogue.leading);
  }
  const auto layout = [&](const BlasMatrix& matrix, DType dtype, std::int64_t rows,
                          std::int64_t columns) {
    cublasLtMatrixLayout_t one = nullptr;
    const auto [r, s] = stored(matrix, rows, columns);
    check(library_.layout_create(&one, data_type(dtype), r, s, matrix.leading),
          "cublasLtMatrixLayoutCreate");
    return own(one, library_.layout_destroy);
  };
  const auto layout_a = layout(a, factors, m, k), layout_b = layout(b, factors, k, n),
             layout_c = layout(c, result, m, n);

  const std::uint32_t alignment =
      common_alignment({a.data, b.data, c.data, epilogue.bias, epilogue.saved});
  const Problem problem{m,
                        n,
                        k,
                        a.leading,
                        b.leading,
                        c.leading,
                        epilogue.leading,
                        a.transposed,
                        b.transposed,
                        beta != 0,
                        factors,
                        epilogue.kind,
                        alignment};
  const auto [known, is_new] = choices_.try_emplace(problem);
  Choice& choice = known->second;
  if (is_new) {
    cublasLtMatmulPreference_t wanted = nullptr;
    check(library_.preference_create(&wanted), "cublasLtMatmulPreferenceCreate");
    const auto preference = own(wanted, library_.preference_destroy);
    const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t attribute, const auto& value) {
      check(library_.preference_set(preference.get(), attribute, &value, sizeof value),
            "cublasLtMatmulPreferenceSetAttribute");
    };
    prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, workspace_bytes);
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignment);
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignment);
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignment);
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignment);
    cublasLtMatmulHeuristicResult_t best{};
    int found = 0;
    const cublasStatus_t status =
        library_.find_algorithm(lt_handle(), description.get(), layout_a.get(), layout_b.get(),
                                layout_c.get(), layout_c.get(), preference.get(), 1, &best, &found);
    if (status != CUBLAS_STATUS_NOT_SUPPORTED) check(status, "cublasLtMatmulAlgoGetHeuristic");
    choice = {status == CUBLAS_STATUS_SUCCESS && found > 0, best.algo};
  }
  if (!choice.found) return false;
  const float one = 1, beta_float = static_cast<float>(beta);
  check(library_.matmul(lt_handle(), description.get(), &one, a.data, layout_a.get(), b.data,
                        layout_b.get(), &beta_float, c.data, layout_c.get(), c.data, layout_c.get(),
                        &choice.algorithm, workspace_, workspace_bytes, stream_->native()),
        "cublasLtMatmul");
  return true;
}

}  // namespace lockstep::kernels::cuda
