// "Did you mean": the known keys that a name that is not known may stand for.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::train {

// How many letters have to be inserted, removed, replaced or swapped with their neighbour to get
// from one word to the other (optimal string alignment distance).
std::size_t edit_distance(std::string_view a, std::string_view b);

// Whether that is likely to be a slip.
bool is_near(std::string_view a, std::string_view b);

struct KnownKey {
  std::string path;                      // "optimizer.lr"
  std::vector<std::string> other_names;  // of its last part
};

// Of `known` the nearest to `path`, as words: "did you mean optimizer.lr?" or, where nothing is
// near, "the nearest known key is optimizer.lr". The last part of a path counts more than its
// section, so a key in the wrong section finds its own.
std::string suggest(std::string_view path, std::span<const KnownKey> known);

// The nearest word itself; empty when none is near.
std::string nearest(std::string_view word, std::span<const std::string> words);

}  // namespace lockstep::train
