// What a build without Gloo says.
#include "comm/gloo/gloo.h"

namespace lockstep::comm {

std::unique_ptr<Communicator> make_gloo_communicator(Store&, const GlooPlace&,
                                                     const CommunicatorOptions&) {
  throw StartupError("this program was built without Gloo");
}

bool has_gloo() {
  return false;
}

}  // namespace lockstep::comm
