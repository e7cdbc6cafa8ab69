#include "train/damage.h"

#include <limits>
#include <type_traits>

namespace lockstep::train {

void damage(Damage kind, const Tensor& tensor) {
  if (kind == Damage::none) return;
  base::visit_dtype(tensor.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    T element = tensor.flatten().slice(0, 0, 1).item<T>();
    if constexpr (std::is_floating_point_v<T>) {
      if (kind == Damage::nan) element = std::numeric_limits<T>::quiet_NaN();
      if (kind == Damage::inf) element = std::numeric_limits<T>::infinity();
    }
    if (kind == Damage::flip) reinterpret_cast<unsigned char&>(element) ^= 1;
    tensor.context().upload(tensor.data(), &element, sizeof element);
  });
}

}  // namespace lockstep::train
