// Unix sockets between the ranks of a group, over which rank 0 passes memory to the others.
//
// Their names are abstract and random: they live in no file system and vanish with the socket. Both
// sides check that the other one belongs to the same user.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "comm/store/descriptor.h"
#include "framework/device/stream.h"

namespace lockstep::comm {

// Called while waiting, every 20 ms at least; throws where the wait has become pointless.
using StillWanted = std::function<void()>;

class PeerListener {
 public:
  PeerListener();

  const std::string& address() const { return address_; }
  // Waits for the ranks 1 to `size` - 1 until the deadline; returns their sockets by rank, empty
  // for those that did not come (and for rank 0). Whoever else connects is ignored, and not waited
  // for.
  std::vector<Descriptor> accept(int size, device::Deadline deadline,
                                 const StillWanted& still_wanted) const;

 private:
  std::string address_;
  Descriptor socket_;
};

// Connects to a listener as `rank`. Empty where it is gone; StartupError where it belongs to
// another user.
Descriptor connect_peer(const std::string& address, int rank);

// Passes a copy of `descriptor`. RankError naming `peer` where it is gone.
void send_descriptor(const Descriptor& socket, int descriptor, int peer);
// Empty when the peer is gone or the deadline passed.
Descriptor receive_descriptor(const Descriptor& socket, device::Deadline deadline,
                              const StillWanted& still_wanted);

}  // namespace lockstep::comm
