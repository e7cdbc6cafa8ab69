#include "framework/nn/parameter_arena.h"

#include <fmt/core.h>

#include <map>

#include "framework/base/error.h"
#include "framework/kernels/kernels.h"
#include "framework/nn/identity.h"

namespace lockstep::nn {
namespace {

// `order` completed to a permutation of all parameters.
std::vector<std::size_t> complete_order(const std::vector<std::size_t>& order, std::size_t count) {
  std::vector<bool> placed(count, false);
  for (const std::size_t i : order) {
    if (i >= count || placed[i]) {
      throw UsageError(fmt::format(
          "parameter arena: the order lists index {}{}, expected each index below {} at most "
          "once",
          i, i < count ? " twice" : "", count));
    }
    placed[i] = true;
  }
  std::vector<std::size_t> all = order;
  for (std::size_t i = 0; i < count; ++i) {
    if (!placed[i]) all.push_back(i);
  }
  return all;
}

std::int64_t align_elements(std::int64_t elements, DType dtype) {
  const std::size_t size = base::size_of(dtype);
  return static_cast<std::int64_t>(device::align_up(static_cast<std::size_t>(elements) * size) /
                                   size);
}

// A zeroed tensor of `count` elements on memory from `source`.
Tensor make_flat(Context& context, std::int64_t count, DType dtype, const BufferSource& source,
                 std::string_view what) {
  const std::size_t bytes = static_cast<std::size_t>(count) * base::size_of(dtype);
  Buffer buffer = source ? source(bytes) : Buffer(context.allocator(), bytes);
  if (buffer.bytes() < bytes) {
    throw UsageError(
        fmt::format("parameter arena: the source of {} memory gave {} bytes, expected {}", what,
                    buffer.bytes(), bytes));
  }
  Tensor flat = Tensor::on_buffer(context, std::move(buffer), 0, Shape{count}, dtype);
  kernels::kernels_for(context).fill(0.0, flat);
  return flat;
}

// Moves the variable into its place, with its value.
void adopt(ParameterArena::Segment& segment, ParameterArena::Entry& entry) {
  const Tensor old = entry.parameter.value();
  const Tensor value = segment.parameters.slice(0, entry.begin, entry.end).reshape(old.shape());
  kernels::kernels_for(old.context()).copy(old, value);
  entry.parameter.set_value(value);
  entry.parameter.set_grad(segment.gradients.slice(0, entry.begin, entry.end).reshape(old.shape()));
}

}  // namespace

ParameterArena::ParameterArena(Context& context, Module& model,
                               const std::vector<std::size_t>& order,
                               const BufferSource& gradient_source,
                               const BufferSource& parameter_source) {
  const std::vector<NamedParameter> parameters = model.named_parameters();
  std::map<DType, Segment> by_dtype;
  for (const std::size_t i : complete_order(order, parameters.size())) {
    const auto& [name, variable] = parameters[i];
    Segment& segment = by_dtype[variable.dtype()];
    segment.dtype = variable.dtype();
    const std::int64_t begin =
        segment.entries.empty() ? 0 : align_elements(segment.entries.back().end, segment.dtype);
    segment.entries.push_back({name, variable, begin, begin + variable.value().count()});
  }
  // All memory first, so that a failure leaves the model as it was.
  for (auto& [dtype, segment] : by_dtype) {
    const std::int64_t count = align_elements(segment.entries.back().end, dtype);
    segment.parameters = make_flat(context, count, dtype, parameter_source, "parameter");
    segment.gradients = make_flat(context, count, dtype, gradient_source, "gradient");
    segments_.push_back(std::move(segment));
  }
  for (std::size_t s = 0; s < segments_.size(); ++s) {
    for (std::size_t e = 0; e < segments_[s].entries.size(); ++e) {
      adopt(segments_[s], segments_[s].entries[e]);
      places_[identity(segments_[s].entries[e].parameter)] = {s, e};
    }
  }
}

std::pair<std::size_t, std::size_t> ParameterArena::find(const Variable& parameter) const {
  const auto place = parameter.defined() ? places_.find(identity(parameter)) : places_.end();
  if (place == places_.end()) {
    throw UsageError(
        "parameter arena: " +
        (parameter.defined() ? "variable \"" + parameter.name() + "\"" : "an undefined variable") +
        " is not one of its parameters");
  }
  return place->second;
}

void ParameterArena::keep_working_copy() {
  for (Segment& segment : segments_) {
    if (segment.dtype != DType::float32 || segment.working.defined()) continue;
    const Tensor& master = segment.parameters;
    segment.working = Tensor::empty(master.context(), master.shape(), DType::bfloat16);
    for (Entry& entry : segment.entries)
      entry.parameter.set_working_copy(
          segment.working.slice(0, entry.begin, entry.end).reshape(entry.parameter.shape()));
  }
  refresh_working_copy();
}

void ParameterArena::refresh_working_copy() {
  for (const Segment& segment : segments_)
    if (segment.working.defined())
      kernels::kernels_for(segment.working.context()).copy(segment.parameters, segment.working);
}

std::int64_t ParameterArena::parameter_count() const {
  std::int64_t count = 0;
  for (const Segment& segment : segments_) {
    for (const Entry& entry : segment.entries) count += entry.end - entry.begin;
  }
  return count;
}

std::size_t ParameterArena::working_bytes() const {
  std::size_t bytes = 0;
  for (const Segment& segment : segments_)
    if (segment.working.defined()) bytes += segment.working.bytes();
  return bytes;
}

std::size_t ParameterArena::bytes() const {
  std::size_t bytes = 0;
  for (const Segment& segment : segments_) bytes += segment.parameters.bytes();
  return bytes;
}

}  // namespace lockstep::nn
