// Reading a configuration, strictly: every mistake in it is found in one go and said with its
// place, the full path of the key, what was found and what is allowed.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "train/config/config.h"

namespace lockstep::train {

// A value from the command line, which goes before the file's.
struct Override {
  std::string path;    // "optimizer.lr"
  std::string value;   // as the file would have it
  std::string origin;  // "--set optimizer.lr=0.1"
};

// Throws ConfigError with one line for each mistake. `name` is what the text is called in them.
Config parse_config(std::string_view text, const std::string& name,
                    std::span<const Override> overrides = {});

// The same for a file, which has to be a regular one.
Config load_config(const std::string& file, std::span<const Override> overrides = {});

}  // namespace lockstep::train
