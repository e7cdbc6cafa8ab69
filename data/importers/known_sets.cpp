#include "data/importers/known_sets.h"

namespace lockstep::data {

std::vector<std::string> known_class_names(std::string_view set_name) {
  if (set_name == "mnist") return {"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"};
  if (set_name == "fashion-mnist") {
    return {"T-shirt/top", "Trouser", "Pullover", "Dress", "Coat",
            "Sandal",      "Shirt",   "Sneaker",  "Bag",   "Ankle boot"};
  }
  return {};
}

}  // namespace lockstep::data
