// Times MPI_Allreduce. Started by mpirun; compare.py has the options that make Open MPI fast here.
#include <mpi.h>

#include "benchmarks/peers/all_reduce_peer.h"

namespace lockstep::benchmarks {
namespace {

class MpiPeer final : public Peer {
 public:
  MpiPeer(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &size_);
  }
  ~MpiPeer() override { MPI_Finalize(); }

  std::string name() const override { return "mpi"; }
  int rank() const override { return rank_; }
  int size() const override { return size_; }
  void all_reduce(std::span<float> data) override {
    MPI_Allreduce(MPI_IN_PLACE, data.data(), static_cast<int>(data.size()), MPI_FLOAT, MPI_SUM,
                  MPI_COMM_WORLD);
  }
  void barrier() override { MPI_Barrier(MPI_COMM_WORLD); }
  double largest(double value) override {
    MPI_Allreduce(MPI_IN_PLACE, &value, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return value;
  }

 private:
  int rank_ = 0, size_ = 1;
};

int run(int argc, char** argv) {
  CLI::App app("Times all_reduce of MPI between ranks of this host; to be started by mpirun.");
  PeerArguments arguments;
  arguments.add_to(app);
  CLI11_PARSE(app, argc, argv);
  MpiPeer peer(argc, argv);
  try {
    PeerBench(peer, arguments).run();
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    MPI_Abort(MPI_COMM_WORLD, 1);  // the others may wait
  }
  return 0;
}

}  // namespace
}  // namespace lockstep::benchmarks

int main(int argc, char** argv) {
  return lockstep::benchmarks::run(argc, argv);
}
