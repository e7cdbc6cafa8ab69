// ParameterArena: all parameters of a model in one flat buffer for each dtype, all gradients in
// another of the same layout.
//
// Entries lie in the order in which a backward pass finishes them (see backward_order), so that a
// bucket of gradients is a range [begin, end) of the flat gradient buffer: no packing, no copy. The
// order is a performance hint, never a condition of correctness. After construction the model's
// parameters and their gradients are views of the arena.
//
// Entries start at multiples of device::alignment bytes and a segment ends at one. The padding is
// zero in both buffers and stays zero. An arena serves one rank; its context must outlive it.
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

// Gives the memory of a flat buffer, for instance memory that peers can address. Called once for
// each segment.
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
    Tensor working;     // flat, same layout; see keep_working_copy()
    std::vector<Entry> entries;
  };

  // `order` lists indices into model.named_parameters(); parameters not in it come last, in the
  // model's order. Values are kept. Memory comes from the context's allocator unless a source is
  // given. Throws UsageError: an index out of range or listed twice, a source that gives too
  // little.
  ParameterArena(Context& context, Module& model, const std::vector<std::size_t>& order,
                 const BufferSource& gradient_source = {},
                 const BufferSource& parameter_source = {});
  ParameterArena(const ParameterArena&) = delete;
  ParameterArena& operator=(const ParameterArena&) = delete;

  // In the order of the DType enumeration.
  const std::vector<Segment>& segments() const { return segments_; }
  std::vector<Segment>& segments() { return segments_; }
  // Where a leaf stands: segment and entry index, in constant time; throws UsageError for a
  // variable that is not in the arena.
  std::pair<std::size_t, std::size_t> find(const Variable& parameter) const;
  // From now on there is a copy of all float32 parameters in bfloat16, for products that read them
  // so: a step of the optimizer keeps it up to date, who writes parameters otherwise refreshes it.
  void keep_working_copy();
  void refresh_working_copy();           // does nothing where none is kept
  std::int64_t parameter_count() const;  // without padding
  std::size_t working_bytes() const;     // of the working copy
  std::size_t bytes() const;  // of the parameters, with padding (the gradients take as much)

 private:
  std::vector<Segment> segments_;
  std::unordered_map<const void*, std::pair<std::size_t, std::size_t>> places_;  // by identity()
};

// The random step of a dry run; no training step has this number.
inline constexpr std::uint64_t dry_run_step = std::numeric_limits<std::uint64_t>::max();

// The order in which a backward pass finishes the gradients of the parameters: one dry forward and
// backward of `input` (zeros of the data's shape will do), in training mode, at a random step of
// its own. `loss` maps the model's output to a scalar. Entries are indices into
// model.named_parameters(); parameters that the loss does not reach are absent. The model is left
// as it was: gradients made on the way are dropped; earlier ones, buffers, training modes and the
// context's random state are restored.
std::vector<std::size_t> backward_order(Module& model, const Variable& input,
                                        const std::function<Variable(const Variable&)>& loss);

}  // namespace lockstep::nn
