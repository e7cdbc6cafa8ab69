// What the MPI module offers to the program: a table of functions in terms of no type of MPI, whose
// binary interface differs from one implementation to the next.
//
// The module is a shared library of its own, the only code that is compiled against mpi.h and the
// only one linked with an MPI: the program loads it when the backend is chosen, and starts where no
// MPI is installed. Every function that can fail returns nullptr, or a message that is valid until
// the thread's next call.
#pragma once

#include <cstddef>
#include <cstdint>

#include "comm/communicator.h"

namespace lockstep::comm {

struct MpiGroup;     // the ranks of an MPI communicator
struct MpiExchange;  // headers on their way

struct MpiApi {
  static constexpr std::uint64_t current_layout = 2;
  std::uint64_t layout;  // of this table

  const char* (*library)();  // "Open MPI v4.1.4"
  // Whether it takes memory of GPUs. May be asked before initialize().
  bool (*is_cuda_aware)();

  // Once in a process. Asks for MPI_THREAD_MULTIPLE and fails where it is not granted.
  const char* (*initialize)(MpiGroup** world);
  // Waits for all ranks of the world.
  void (*finalize)();

  int (*rank)(const MpiGroup* group);
  int (*size)(const MpiGroup* group);
  // Collective; `part` is nullptr for a negative color.
  const char* (*split)(MpiGroup* group, int color, int key, MpiGroup** part);
  void (*release)(MpiGroup* group);

  // Every rank sends `bytes` at `mine` to every other; what rank r sent lands at all + r * bytes.
  // poll() gives the first rank whose message is missing, -1 when all is done. release_exchange()
  // ends it, done or not; `mine` and `all` must stay until then.
  const char* (*start_exchange)(MpiGroup* group, const void* mine, void* all, std::size_t bytes,
                                MpiExchange** exchange);
  const char* (*poll_exchange)(MpiExchange* exchange, int* missing);
  void (*release_exchange)(MpiExchange* exchange);

  // In place, any count. Not for 16-bit floats and not for avg.
  const char* (*all_reduce)(MpiGroup* group, void* data, std::int64_t count, DType dtype,
                            ReduceOp op);
  const char* (*reduce)(MpiGroup* group, void* data, std::int64_t count, DType dtype, ReduceOp op,
                        int root);
  // Rank r gets the reduction of elements [borders[r], borders[r + 1]) at their place in `data`.
  const char* (*reduce_scatter)(MpiGroup* group, void* data, const std::int64_t* borders,
                                DType dtype, ReduceOp op);
  // Rank r gives the bytes [borders[r], borders[r + 1]) of `data`; all get all.
  const char* (*all_gather)(MpiGroup* group, void* data, const std::int64_t* borders);
  const char* (*broadcast)(MpiGroup* group, void* data, std::int64_t bytes, int root);
  const char* (*all_to_all)(MpiGroup* group, const void* send, void* receive,
                            std::int64_t bytes_for_each);
};

// The name under which the module exports its table.
inline constexpr const char* mpi_api_symbol = "lockstep_mpi_api";
using GetMpiApi = const MpiApi* (*)();

}  // namespace lockstep::comm
