// MpiTransport: MPI's collectives as a Transport, through the module.
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "comm/message/transport.h"
#include "comm/mpi/mpi_api.h"
#include "comm/store/descriptor.h"

namespace lockstep::comm {

// MPI in this process, initialised; finalised by the destructor unless it was given up.
class MpiSession {
 public:
  // `seat` is held as long as MPI is in use. StartupError.
  MpiSession(const MpiApi& api, Descriptor seat);
  ~MpiSession();
  MpiSession(const MpiSession&) = delete;
  MpiSession& operator=(const MpiSession&) = delete;

  const MpiApi& api() const { return api_; }
  MpiGroup* world() const { return world_; }
  // After a failure: the end of MPI waits for all ranks, which may never come.
  void give_up() { given_up_ = true; }

 private:
  const MpiApi& api_;
  Descriptor seat_;
  MpiGroup* world_ = nullptr;
  std::atomic<bool> given_up_ = false;
};

class MpiTransport final : public Transport {
 public:
  // Takes the group.
  MpiTransport(std::shared_ptr<MpiSession> session, MpiGroup* group);
  ~MpiTransport() override;

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  std::string_view backend() const override { return "mpi"; }
  bool can_end_waits() const override { return false; }

  void exchange(std::span<Signature> by_rank, device::Deadline deadline,
                const LookAround& look_around) override;
  void all_reduce(const Range& data, ReduceOp op, device::Deadline deadline) override;
  void reduce(const Range& data, ReduceOp op, int root, device::Deadline deadline) override;
  void reduce_scatter(const Range& data, ReduceOp op, device::Deadline deadline) override;
  void all_gather(const Range& data, device::Deadline deadline) override;
  void broadcast(const Range& data, int root, device::Deadline deadline) override;
  void all_to_all(const Range& send, const Range& receive, device::Deadline deadline) override;
  std::unique_ptr<Transport> split(std::span<const int> members, Store& store,
                                   const std::string& prefix, device::Deadline deadline) override;
  void end_waits() noexcept override { session_->give_up(); }

 private:
  const MpiApi& api() const { return session_->api(); }
  // The borders of the ranks' slices of `count` elements of so many bytes.
  std::vector<std::int64_t> borders(std::int64_t count, std::int64_t unit) const;

  std::shared_ptr<MpiSession> session_;
  MpiGroup* group_;
  int rank_, size_;
  Signature sent_header_;
  std::vector<Signature> headers_;
};

}  // namespace lockstep::comm
