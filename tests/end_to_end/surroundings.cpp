#include "tests/end_to_end/surroundings.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>

namespace lockstep::tests {

bool may_make_namespaces() {
  return geteuid() == 0 && std::system("unshare --net --uts true 2>/dev/null") == 0;
}

Arguments in_namespace(const std::string& host_name, const Arguments& command) {
  std::string line = "hostname " + host_name + "; ip link set lo up; exec";
  for (const auto& word : command) line += " '" + word + "'";
  return {"unshare", "--net", "--uts", "sh", "-c", line};
}

std::string listening_ports_of(pid_t process) {
  const std::string command =
      "ss -ltnp 2>/dev/null | grep -E 'pid=" + std::to_string(process) + ",'";
  std::string text;
  if (FILE* pipe = popen(command.c_str(), "r")) {
    char line[512];
    while (fgets(line, sizeof line, pipe)) text += line;
    pclose(pipe);
  }
  return text;
}

}  // namespace lockstep::tests
