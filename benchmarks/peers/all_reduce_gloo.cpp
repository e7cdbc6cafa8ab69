// Times gloo::allreduce over TCP on the loopback interface, what Gloo offers within a host.
#include <gloo/allreduce.h>
#include <gloo/barrier.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <memory>

#include "benchmarks/peers/all_reduce_peer.h"

namespace lockstep::benchmarks {
namespace {

using Algorithm = gloo::AllreduceOptions::Algorithm;

class GlooPeer final : public Peer {
 public:
  // Ranks meet in files of `folder`.
  GlooPeer(int rank, int size, std::string algorithm, const std::string& folder)
      : algorithm_(std::move(algorithm)) {
    gloo::rendezvous::FileStore store(folder);
    gloo::transport::tcp::attr loopback;
    loopback.hostname = "127.0.0.1";
    auto device = gloo::transport::tcp::CreateDevice(loopback);
    auto context = std::make_shared<gloo::rendezvous::Context>(rank, size);
    context->connectFullMesh(store, device);
    context_ = context;
  }
  // Whoever leaves first would break the others' connections.
  ~GlooPeer() override { barrier(); }

  std::string name() const override { return "gloo " + algorithm_; }
  int rank() const override { return context_->rank; }
  int size() const override { return context_->size; }
  void all_reduce(std::span<float> data) override {
    reduce(data.data(), data.size(), &gloo::sum<float>);
  }
  void barrier() override {
    gloo::BarrierOptions options(context_);
    gloo::barrier(options);
  }
  double largest(double value) override {
    reduce(&value, 1, &gloo::max<double>);
    return value;
  }

 private:
  template <class T>
  void reduce(T* data, std::size_t count,
              void (*function)(void*, const void*, const void*, size_t)) {
    gloo::AllreduceOptions options(context_);
    options.setOutput(data, count);
    options.setReduceFunction(function);
    options.setAlgorithm(algorithm_ == "ring" ? Algorithm::RING : Algorithm::BCUBE);
    gloo::allreduce(options);
  }

  std::string algorithm_;
  std::shared_ptr<gloo::Context> context_;
};

int run(int argc, char** argv) {
  CLI::App app("Times all_reduce of Gloo between ranks of this host.");
  PeerArguments arguments;
  int ranks = 8;
  std::string algorithm = "ring";
  app.add_option("--ranks", ranks)->check(CLI::Range(1, 64));
  app.add_option("--algorithm", algorithm)->check(CLI::IsMember({"ring", "bcube"}));
  arguments.add_to(app);
  CLI11_PARSE(app, argc, argv);

  std::string folder = std::filesystem::temp_directory_path() / "all_reduce_gloo-XXXXXX";
  if (::mkdtemp(folder.data()) == nullptr) throw std::runtime_error("cannot make " + folder);
  for (int rank = 0; rank < ranks; ++rank) {
    if (::fork() != 0) continue;
    try {
      GlooPeer peer(rank, ranks, algorithm, folder);
      PeerBench(peer, arguments).run();
      return 0;
    } catch (const std::exception& error) {
      fmt::print(stderr, "rank {}: {}\n", rank, error.what());
      std::_Exit(1);  // without the barrier
    }
  }
  int failed = 0, status = 0;
  while (::wait(&status) > 0)
    if (status != 0) ++failed;
  std::filesystem::remove_all(folder);
  return failed == 0 ? 0 : 1;
}

}  // namespace
}  // namespace lockstep::benchmarks

int main(int argc, char** argv) {
  return lockstep::benchmarks::run(argc, argv);
}
