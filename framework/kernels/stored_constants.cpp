#include "framework/kernels/stored_constants.h"

#include "framework/kernels/dispatch.h"
#include "framework/kernels/kernels.h"
#include "framework/kernels/update_constants.h"

namespace lockstep::kernels {
namespace {

template <template <class> class Constants, class Options>
void store(const Options& options, const Tensor& tensor) {
  visit_float("store_constants", tensor.dtype(), [&]<class T>(base::TypeTag<T>) {
    static_assert(sizeof(Constants<T>) == Constants<T>::count * sizeof(T));
    const Constants<T> constants(options);
    kernels_for(tensor.context()).store(std::as_bytes(std::span(&constants, 1)), tensor);
  });
}

}  // namespace

Tensor make_sgd_constants(const Tensor& parameter) {
  return Tensor::empty(parameter.context(), {SgdConstants<float>::count}, parameter.dtype());
}

Tensor make_adam_constants(const Tensor& parameter) {
  return Tensor::empty(parameter.context(), {AdamConstants<float>::count}, parameter.dtype());
}

void store_constants(const SgdOptions& options, const Tensor& constants) {
  store<SgdConstants>(options, constants);
}

void store_constants(const AdamOptions& options, const Tensor& constants) {
  store<AdamConstants>(options, constants);
}

}  // namespace lockstep::kernels
