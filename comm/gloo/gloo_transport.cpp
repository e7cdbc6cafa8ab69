#include "comm/gloo/gloo_transport.h"

#include <fmt/format.h>
#include <gloo/allgatherv.h>
#include <gloo/allreduce.h>
#include <gloo/alltoall.h>
#include <gloo/broadcast.h>
#include <gloo/reduce.h>

#include <algorithm>
#include <csignal>

#include "comm/gloo/gloo.h"
#include "comm/ring/cpu/reduce_kernels.h"

namespace lockstep::comm {
namespace {

using std::chrono::milliseconds;

// Messages are matched by slot. Gloo's own begin with bytes up to 0x08.
constexpr std::uint64_t header_slot = std::uint64_t{0x40} << 56;
constexpr std::uint64_t slice_slot = std::uint64_t{0x41} << 56;

// Gloo takes 0 for "no limit".
milliseconds left_until(device::Deadline deadline) {
  return std::max(milliseconds(1),
                  std::chrono::ceil<milliseconds>(deadline - device::Clock::now()));
}

std::size_t bytes_of(const Slice& slice, DType dtype) {
  return static_cast<std::size_t>(slice.count()) * base::size_of(dtype);
}

// Gloo learns the size of an element from a type: call(pointer of such a type).
template <class Call>
void with_element_type(const Range& range, Call&& call) {
  base::visit_dtype(
      range.dtype, [&](auto tag) { call(static_cast<typename decltype(tag)::type*>(range.data)); });
}

GlooAlgorithm algorithm_from_name(const std::string& name) {
  if (name == "auto" || name == "ring") return GlooAlgorithm::ring;
  if (name == "bcube") return GlooAlgorithm::bcube;
  throw ConfigError(fmt::format(
      "comm.algorithm: found \"{}\", expected auto, ring or bcube for the backend gloo", name));
}

}  // namespace

GlooTransport::GlooTransport(std::unique_ptr<GlooMesh> mesh, GlooAlgorithm algorithm)
    : mesh_(std::move(mesh)),
      algorithm_(algorithm),
      headers_(static_cast<std::size_t>(size())),
      inboxes_(static_cast<std::size_t>(size())) {
  if (size() == 1) return;
  outbox_ = buffer(&sent_header_, sizeof(Signature));
  for (std::size_t r = 0; r < headers_.size(); ++r)
    inboxes_[r] = buffer(&headers_[r], sizeof(Signature));
}

GlooTransport::~GlooTransport() = default;

GlooTransport::Buffer GlooTransport::buffer(void* data, std::size_t bytes) const {
  return mesh_->context()->createUnboundBuffer(data, bytes);
}

template <class Body>
void GlooTransport::guarded(device::Deadline deadline, const int& awaited, Body&& body) {
  using Kind = TransportError::Kind;
  try {
    body();
  } catch (const gloo::Exception& error) {
    if (device::Clock::now() >= deadline) throw TransportError(Kind::late, awaited, error.what());
    const int named = mesh_->rank_in(error.what());
    throw TransportError(Kind::lost, named < 0 ? awaited : named, error.what());
  }
}

// Every rank sends to every other: one step, and a rank that does not come is known by name.
void GlooTransport::exchange(std::span<Signature> by_rank, device::Deadline deadline,
                             const LookAround&) {
  sent_header_ = by_rank[static_cast<std::size_t>(rank())];
  int awaited = -1;
  guarded(deadline, awaited, [&] {
    for (int r = 0; r < size(); ++r)
      if (r != rank()) inboxes_[static_cast<std::size_t>(r)]->recv(r, header_slot);
    for (int r = 0; r < size(); ++r)
      if (r != rank()) outbox_->send(r, header_slot);
    for (int r = 0; r < size(); ++r) {
      if (r == rank()) continue;
      awaited = r;
      inboxes_[static_cast<std::size_t>(r)]->waitRecv(left_until(deadline));
      by_rank[static_cast<std::size_t>(r)] = headers_[static_cast<std::size_t>(r)];
    }
    awaited = -1;
    for (int others = size() - 1; others > 0; --others) outbox_->waitSend(left_until(deadline));
  });
}

void GlooTransport::all_reduce(const Range& data, ReduceOp op, device::Deadline deadline) {
  guarded(deadline, [&] {
    gloo::AllreduceOptions options(mesh_->context());
    with_element_type(data, [&](auto* elements) {
      options.setOutput(elements, static_cast<std::size_t>(data.count));
    });
    options.setReduceFunction(ring::step_kernels(data.dtype, op).combine);
    options.setAlgorithm(algorithm_ == GlooAlgorithm::ring
                             ? gloo::AllreduceOptions::Algorithm::RING
                             : gloo::AllreduceOptions::Algorithm::BCUBE);
    options.setTimeout(left_until(deadline));
    gloo::allreduce(options);
  });
}

void GlooTransport::reduce(const Range& data, ReduceOp op, int root, device::Deadline deadline) {
  guarded(deadline, [&] {
    gloo::ReduceOptions options(mesh_->context());
    with_element_type(data, [&](auto* elements) {
      options.setOutput(elements, static_cast<std::size_t>(data.count));
    });
    options.setReduceFunction(ring::step_kernels(data.dtype, op).combine);
    options.setRoot(root);
    options.setTimeout(left_until(deadline));
    gloo::reduce(options);
  });
}

// Gloo has none for any number of ranks: every rank sends each slice straight to its owner, which
// adds them up in the order of the ranks.
void GlooTransport::reduce_scatter(const Range& data, ReduceOp op, device::Deadline deadline) {
  const Slice own = slice_of(data.count, rank(), size());
  const std::size_t own_bytes = bytes_of(own, data.dtype);
  std::vector<std::byte> received(own_bytes * static_cast<std::size_t>(size()));
  std::vector<const std::byte*> parts;
  for (int r = 0; r < size(); ++r)
    parts.push_back(r == rank() ? data.at(own.begin)
                                : received.data() + own_bytes * static_cast<std::size_t>(r));
  guarded(deadline, [&] {
    const Buffer out = buffer(data.data, data.bytes());
    const Buffer in = buffer(received.data(), received.size());
    int sends = 0, receives = 0;
    for (int r = 0; r < size(); ++r) {
      if (r == rank() || own_bytes == 0) continue;
      in->recv(r, slice_slot, own_bytes * static_cast<std::size_t>(r), own_bytes);
      ++receives;
    }
    for (int r = 0; r < size(); ++r) {
      const Slice theirs = slice_of(data.count, r, size());
      if (r == rank() || theirs.count() == 0) continue;
      out->send(r, slice_slot, static_cast<std::size_t>(theirs.begin) * base::size_of(data.dtype),
                bytes_of(theirs, data.dtype));
      ++sends;
    }
    for (; receives > 0; --receives) in->waitRecv(left_until(deadline));
    for (; sends > 0; --sends) out->waitSend(left_until(deadline));
  });
  std::byte* const result = data.at(own.begin);
  ring::reduce_to_all(data.dtype, op, parts, {&result, 1}, static_cast<std::size_t>(own.count()));
}

void GlooTransport::all_gather(const Range& data, device::Deadline deadline) {
  std::vector<std::size_t> counts;
  for (int r = 0; r < size(); ++r)
    counts.push_back(static_cast<std::size_t>(slice_of(data.count, r, size()).count()));
  guarded(deadline, [&] {
    gloo::AllgathervOptions options(mesh_->context());
    with_element_type(data, [&](auto* elements) { options.setOutput(elements, counts); });
    options.setTimeout(left_until(deadline));
    gloo::allgatherv(options);
  });
}

void GlooTransport::broadcast(const Range& data, int root, device::Deadline deadline) {
  guarded(deadline, [&] {
    gloo::BroadcastOptions options(mesh_->context());
    with_element_type(data, [&](auto* elements) {
      options.setOutput(elements, static_cast<std::size_t>(data.count));
    });
    options.setRoot(root);
    options.setTimeout(left_until(deadline));
    gloo::broadcast(options);
  });
}

void GlooTransport::all_to_all(const Range& send, const Range& receive, device::Deadline deadline) {
  guarded(deadline, [&] {
    gloo::AlltoallOptions options(mesh_->context());
    with_element_type(send, [&](auto* elements) {
      options.setInput(elements, static_cast<std::size_t>(send.count));
    });
    with_element_type(receive, [&](auto* elements) {
      options.setOutput(elements, static_cast<std::size_t>(receive.count));
    });
    options.setTimeout(left_until(deadline));
    gloo::alltoall(options);
  });
}

std::unique_ptr<Transport> GlooTransport::split(std::span<const int> members, Store& store,
                                                const std::string& prefix,
                                                device::Deadline deadline) {
  if (members.empty()) return nullptr;
  const auto self = std::find(members.begin(), members.end(), rank());
  auto mesh = std::make_unique<GlooMesh>(mesh_->device(), static_cast<int>(self - members.begin()),
                                         static_cast<int>(members.size()), store, prefix,
                                         left_until(deadline));
  return std::make_unique<GlooTransport>(std::move(mesh), algorithm_);
}

// Gloo has no call for it, but a wait that runs out closes all connections of its context: the
// waits of this rank and of its peers end with an error. (A message that has arrived in part is
// waited for until the call's own deadline.)
void GlooTransport::end_waits() noexcept try {
  if (size() == 1) return;
  char nothing = 0;
  buffer(&nothing, sizeof nothing)->waitRecv(milliseconds(1));
} catch (const std::exception&) {
}

namespace {

// Gloo writes to its sockets without asking to be spared the signal, which would end this process
// when a peer is gone, before it can say so.
void ignore_broken_pipes() {
  struct sigaction action {};
  if (sigaction(SIGPIPE, nullptr, &action) == 0 && action.sa_handler == SIG_DFL)
    std::signal(SIGPIPE, SIG_IGN);
}

}  // namespace

std::unique_ptr<Transport> connect_gloo(Store& store, const GlooPlace& place,
                                        const std::string& algorithm) {
  const GlooAlgorithm chosen = algorithm_from_name(algorithm);
  ignore_broken_pipes();
  return std::make_unique<GlooTransport>(
      std::make_unique<GlooMesh>(make_gloo_device(place.interface), place.rank, place.size, store,
                                 place.prefix, place.start_timeout),
      chosen);
}

bool has_gloo() {
  return true;
}

}  // namespace lockstep::comm
