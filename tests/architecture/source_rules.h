// The rules that hold for every source file of framework, comm, models, data and train.
//
// - A folder includes itself and the folders below it only; ARCHITECTURE.md draws the arrows.
// - Includes of the project are written from the repo root and name a file that exists.
// - A header says #pragma once.
// - A file has at most 500 lines.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace lockstep::architecture {

struct Report {
  int files = 0;                        // read
  std::vector<std::string> violations;  // "file:line: what is wrong", sorted
};

// `root` is the top of a source tree. Folders that it lacks are passed over.
Report check_sources(const std::filesystem::path& root);

}  // namespace lockstep::architecture
