// MessageCommunicator: a Communicator over a Transport.
//
// Before a call touches data the ranks exchange what they were asked to do (comm.check: every), so
// that they find out when they disagree or one of them does not come; with "plan" only for calls
// that this communicator has not seen yet, with "off" never. They do so in shared memory where all
// are on one host, and by messages otherwise. 16-bit floats travel as float in
// reductions, twice the bytes: these libraries have no accumulator of another type than the data's.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <unordered_set>
#include <vector>

#include "comm/message/first_cause.h"
#include "comm/message/roll_call.h"
#include "comm/message/transport.h"
#include "comm/ring/cpu/exchange.h"

namespace lockstep::comm {

class MessageCommunicator final : public HostCommunicator {
 public:
  // Collective: returns when all ranks have come. `prefix` is this group's own in the store, which
  // outlives this. `host`: where all ranks share memory they meet there, which takes a few
  // microseconds, and not by messages. StartupError where a rank does not come within
  // `start_timeout`.
  MessageCommunicator(std::unique_ptr<Transport> transport, Store& store, const std::string& prefix,
                      const CommunicatorOptions& options, std::chrono::milliseconds start_timeout,
                      std::unique_ptr<Group> host = nullptr);
  // Waits for the other ranks unless the group has failed: one that leaves earlier would break the
  // connections of those that still use them.
  ~MessageCommunicator() override;

  int rank() const override { return transport_->rank(); }
  int size() const override { return transport_->size(); }
  std::string_view backend() const override { return transport_->backend(); }
  const Capabilities& capabilities() const override { return capabilities_; }
  std::shared_ptr<SymmetricBuffer> addressable_memory(std::size_t bytes) override {
    return transport_->addressable_memory(bytes);
  }
  void abort(int rank, const std::string& cause) override;

 private:
  MessageCommunicator(std::unique_ptr<Transport> transport, Store& store, const std::string& prefix,
                      const CommunicatorOptions& options, std::shared_ptr<FirstCause> cause,
                      std::unique_ptr<Group> host, device::Deadline deadline);

  static Capabilities capabilities_of(const Transport& transport);

  void do_all_reduce(const Collective& call) override;
  void do_reduce(const Collective& call) override;
  void do_reduce_scatter(const Collective& call) override;
  void do_all_gather(const Collective& call) override;
  void do_broadcast(const Collective& call) override;
  void do_all_to_all(const Collective& call) override;
  void do_barrier(const Collective& call) override;
  std::unique_ptr<Communicator> do_split(const Collective& call, int color, int key) override;

  void meet(const Collective& call);
  // The meeting that the call needs, then `move` where there is data; both with errors of the
  // transport turned into what the ranks are told.
  template <class Move>
  void perform(const Collective& call, Move&& move);
  // perform() of a reduction: `move` gets the data as it travels; afterwards the elements of
  // `result` are there.
  template <class Move>
  void perform_reduction(const Collective& call, const Slice& result, Move&& move);
  [[noreturn]] void throw_cause_of(const TransportError& error, const Collective& call,
                                   std::string_view verb);
  bool wants_check(const Signature& signature);
  LookAround look_around();

  std::unique_ptr<Transport> transport_;
  Store& store_;
  std::string prefix_;
  std::unique_ptr<Group> host_;  // of all ranks; nullptr where they share no memory
  std::optional<ring::Exchange> meeting_;
  std::shared_ptr<FirstCause> cause_;
  RollCall roll_call_;
  std::optional<StuckWatch> watch_;  // where nothing else can tell of a call without an end
  Capabilities capabilities_;
  std::vector<Signature> signatures_;
  std::unordered_set<std::uint64_t> checked_;  // hashes of calls; for comm.check: plan
  std::vector<float> widened_;                 // 16-bit data as it travels
};

}  // namespace lockstep::comm
