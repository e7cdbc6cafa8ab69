// What a build without Gloo says.
#include "comm/gloo/gloo.h"

namespace lockstep::comm {

std::unique_ptr<Transport> connect_gloo(Store&, const GlooPlace&, const std::string&) {
  throw StartupError("this program was built without Gloo");
}

bool has_gloo() {
  return false;
}

}  // namespace lockstep::comm
