// ParameterArena: all parameters of a model in one flat buffer for each dtype, all gradients in
// another of the same layout.
//
// Entries lie in the order in which a backward pass finishes them (see backward_order), so that a
// bucket of gradients is a range [begin, end) of the flat gradient buffer: no packing, no copy. The
// order is a performance hint, never a condition of correctness. After construction the model's
// parameters and their gradients are views of the arena. The padding between entries is zero and
// stays zero.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "framework/nn/module.h"

namespace lockstep::nn {

// Gives the memory of the flat gradient buffer, for instance memory that peers can address.
using BufferSource = std::function<Buffer(std::size_t bytes)>;

class ParameterArena {
 public:
  struct Entry {
    std::string name;
    Variable parameter;
    std::int64_t begin = 0;  // in elements of the flat buffer
    std::int64_t end = 0;    // begin + count, without padding
  };
  // All parameters of one dtype.
  struct Segment {
    DType dtype = DType::float32;
    Tensor parameters;  // flat
    Tensor gradients;   // flat, same layout; zero at first
    std::vector<Entry> entries;
  };

  // `order` lists indices into model.named_parameters(); parameters not in it come last. Values are
  // kept. Memory comes from the context's allocator unless a source is given.
  ParameterArena(Context& context, Module& model, const std::vector<std::size_t>& order,
                 const BufferSource& gradient_source = {},
                 const BufferSource& parameter_source = {});

  const std::vector<Segment>& segments() const { return segments_; }
  std::vector<Segment>& segments() { return segments_; }
  // Where a leaf stands: segment and entry index; throws UsageError for a variable that is not in
  // it.
  std::pair<std::size_t, std::size_t> find(const Variable& parameter) const;
  std::int64_t parameter_count() const;  // without padding
  std::size_t bytes() const;  // of the parameters, with padding (the gradients take as much)

 private:
  std::vector<Segment> segments_;
  std::unordered_map<const void*, std::pair<std::size_t, std::size_t>> places_;  // by identity()
};

// The order in which a backward pass announces the parameters: one dry forward and backward on
// zeros, in training mode, with buffers restored afterwards. `loss` maps the model's output to a
// scalar. Gradients made on the way are dropped. Entries are indices into model.named_parameters();
// unreached parameters are absent.
std::vector<std::size_t> backward_order(Module& model, const Variable& input,
                                        const std::function<Variable(const Variable&)>& loss);

}  // namespace lockstep::nn
