#include "train/parallel/buffers.h"

#include <fmt/format.h>

#include "framework/kernels/kernels.h"
#include "train/parallel/tensor_range.h"

namespace lockstep::train {

ModelBuffers::ModelBuffers(Context& context, comm::Communicator& communicator,
                           const nn::Module& model, BufferPolicy policy)
    : communicator_(communicator), policy_(policy) {
  std::int64_t count = 0;
  for (const auto& [name, tensor] : model.named_buffers()) {
    if (!base::is_floating(tensor.dtype()))
      throw UsageError(fmt::format("buffer '{}' is of type {}, expected a floating one", name,
                                   base::name_of(tensor.dtype())));
    buffers_.push_back(tensor);
    for (auto& before : before_)
      before.push_back(Tensor::empty(context, tensor.shape(), tensor.dtype()));
    count += tensor.count();
  }
  if (buffers_.empty() || policy_ != BufferPolicy::average) return;
  packed_ = Tensor::empty(context, Shape{count}, DType::float64);
  std::int64_t begin = 0;
  for (const Tensor& buffer : buffers_) {
    parts_.push_back(packed_.slice(0, begin, begin + buffer.count()).reshape(buffer.shape()));
    begin += buffer.count();
  }
}

void ModelBuffers::broadcast(Stream& stream) {
  if (!buffers_.empty()) stream.wait(buffers_.front().context().compute_stream().record());
  for (const Tensor& buffer : buffers_) communicator_.broadcast(range_of(buffer), 0, stream).wait();
}

void ModelBuffers::begin(std::int64_t update) {
  for (std::size_t b = 0; b < buffers_.size(); ++b)
    kernels::kernels_for(buffers_[b].context()).copy(buffers_[b], before(update)[b]);
}

void ModelBuffers::start(std::int64_t rows, std::int64_t all_rows, Stream& stream) {
  if (parts_.empty()) return;
  all_rows_ = static_cast<double>(all_rows);
  pack(static_cast<double>(rows));
  stream.wait(packed_.context().compute_stream().record());
  work_ = communicator_.all_reduce(range_of(packed_), comm::ReduceOp::sum, stream);
}

void ModelBuffers::end() {
  if (parts_.empty()) return;
  work_.wait_on(packed_.context().compute_stream());
  if (all_rows_ > 0) unpack();
}

void ModelBuffers::undo(std::int64_t update) {
  for (std::size_t b = 0; b < buffers_.size(); ++b)
    kernels::kernels_for(buffers_[b].context()).copy(before(update)[b], buffers_[b]);
}

void ModelBuffers::synchronize(Stream& stream) {
  if (policy_ == BufferPolicy::broadcast) broadcast(stream);
}

void ModelBuffers::pack(double weight) {
  const kernels::Kernels& kernels = kernels::kernels_for(packed_.context());
  for (std::size_t b = 0; b < buffers_.size(); ++b) {
    kernels.copy(buffers_[b], parts_[b]);
    kernels.axpby(weight, parts_[b], 0, parts_[b]);
  }
}

void ModelBuffers::unpack() {
  const kernels::Kernels& kernels = kernels::kernels_for(packed_.context());
  for (std::size_t b = 0; b < buffers_.size(); ++b) {
    kernels.axpby(1 / all_rows_, parts_[b], 0, parts_[b]);
    kernels.copy(parts_[b], buffers_[b]);
  }
}

}  // namespace lockstep::train
