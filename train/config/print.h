// The effective configuration as text, and the reference of all keys.
#pragma once

#include <string>

#include "train/config/config.h"

namespace lockstep::train {

enum class Comments : bool { without, with };

// Every key that has an effect, in the order of the schema, as YAML that reads back as the same
// Config: what a run logs, keeps in its folder and in its checkpoints, and hands to its workers.
// With comments each key is preceded by its meaning, what is allowed and the default.
std::string to_yaml(const Config& config, Comments comments = Comments::without);

// The same as lines that stand for themselves, "optimizer.lr: 0.05".
std::string to_lines(const Config& config);

// docs/configuration.md.
std::string configuration_reference();

}  // namespace lockstep::train
