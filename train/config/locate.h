// Where the file named by --config is.
#pragma once

#include <string>

namespace lockstep::train {

// `name` as given if it is there; otherwise in the configs/ that come with this program, found from
// where its executable is: the repository's for a build tree, share/lockstep/configs for an
// installed one. Throws ConfigError saying where it looked.
std::string locate_config(const std::string& name);

}  // namespace lockstep::train
