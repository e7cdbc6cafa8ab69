#include "tests/support/namespaces.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include <cstdlib>
#include <stdexcept>

#include "comm/store/descriptor.h"

namespace lockstep::tests {
namespace {

void run(const std::string& command) {
  if (std::system((command + " 2>/dev/null").c_str()) != 0)
    throw std::runtime_error("failed: " + command);
}

// The namespace of the bridge, beside the hosts'.
constexpr int bridge = -1;

}  // namespace

bool Namespaces::are_possible() {
  return geteuid() == 0 && std::system("unshare --net ip link set lo up 2>/dev/null") == 0 &&
         access("/run", W_OK) == 0;
}

std::string Namespaces::name(int host) const {
  return fmt::format("{}-{}", prefix_, host == bridge ? "bridge" : std::to_string(host));
}

Namespaces::Namespaces(int hosts) : prefix_(fmt::format("lockstep-{}", getpid())), hosts_(hosts) {
  run(fmt::format(
      "ip netns add {0} && ip -n {0} link add br0 type bridge && ip -n {0} link set br0 up",
      name(bridge)));
  for (int host = 0; host < hosts; ++host)
    run(
        fmt::format("ip netns add {0} && ip -n {0} link set lo up && "
                    "ip link add port{2} netns {1} type veth peer name eth0 netns {0} && "
                    "ip -n {0} addr add 10.77.0.{3}/24 dev eth0 && ip -n {0} link set eth0 up && "
                    "ip -n {1} link set port{2} master br0 up",
                    name(host), name(bridge), host, host + 1));
}

Namespaces::~Namespaces() {
  for (int host = bridge; host < hosts_; ++host)
    static_cast<void>(std::system(fmt::format("ip netns del {} 2>/dev/null", name(host)).c_str()));
}

void Namespaces::enter(int host) const {
  const comm::Descriptor space(open(("/run/netns/" + name(host)).c_str(), O_RDONLY | O_CLOEXEC));
  if (!space || setns(space.get(), CLONE_NEWNET) != 0)
    throw std::runtime_error("cannot enter " + name(host));
}

void Namespaces::cut(int host) const {
  run(fmt::format("ip -n {} link set port{} down", name(bridge), host));
}

}  // namespace lockstep::tests
