#include "train/version.h"

namespace lockstep::train {

std::string_view program_version() {
  return LOCKSTEP_VERSION;
}

}  // namespace lockstep::train
