// The MPI module; see mpi_api.h. Compiles against any MPI of version 3.
#include <mpi.h>
#if __has_include(<mpi-ext.h>)
#include <mpi-ext.h>
#endif

#include <algorithm>
#include <climits>
#include <cstring>
#include <string>
#include <vector>

#include "comm/mpi/mpi_api.h"

namespace lockstep::comm {

struct MpiGroup {
  MPI_Comm comm = MPI_COMM_NULL;
};

struct MpiExchange {
  int rank = 0;
  std::vector<MPI_Request> receives;  // by rank; MPI_REQUEST_NULL when it is there
  std::vector<MPI_Request> sends;
};

namespace {

constexpr int header_tag = 1;
// Counts are ints: larger data goes in pieces of so many elements.
constexpr std::int64_t piece = std::int64_t{1} << 30;

const char* outcome(int code) {
  if (code == MPI_SUCCESS) return nullptr;
  thread_local char text[MPI_MAX_ERROR_STRING];
  int length = 0;
  MPI_Error_string(code, text, &length);
  return text;
}

MPI_Datatype type_of(DType dtype) {
  switch (dtype) {
    case DType::float32:
      return MPI_FLOAT;
    case DType::float64:
      return MPI_DOUBLE;
    case DType::int32:
      return MPI_INT32_T;
    case DType::int64:
      return MPI_INT64_T;
    case DType::uint8:
      return MPI_UINT8_T;
    default:
      return MPI_DATATYPE_NULL;
  }
}

std::int64_t bytes_of(DType dtype) {
  int bytes = 0;
  MPI_Type_size(type_of(dtype), &bytes);
  return bytes;
}

// MPI_MAX and MPI_MIN of floats leave open what becomes of a NaN; these keep it.
template <class T, bool largest>
void keep_nan(void* in, void* in_and_out, int* count, MPI_Datatype*) {
  const T* x = static_cast<const T*>(in);
  T* y = static_cast<T*>(in_and_out);
  for (int i = 0; i < *count; ++i)
    if ((largest ? y[i] < x[i] : x[i] < y[i]) || x[i] != x[i]) y[i] = x[i];
}

// MPI_SUM of bytes is said to wrap around; Open MPI's vectorised one stops at 255.
void wrap_around(void* in, void* in_and_out, int* count, MPI_Datatype*) {
  const auto* x = static_cast<const std::uint8_t*>(in);
  auto* y = static_cast<std::uint8_t*>(in_and_out);
  for (int i = 0; i < *count; ++i) y[i] = static_cast<std::uint8_t>(y[i] + x[i]);
}

// The operations that MPI lacks. MPI is there once in a process, and so are they.
struct Operations {
  MPI_Op sum_of_bytes = MPI_OP_NULL;
  MPI_Op max[2] = {MPI_OP_NULL, MPI_OP_NULL};  // of float, of double
  MPI_Op min[2] = {MPI_OP_NULL, MPI_OP_NULL};
};
Operations& operations() {
  static Operations all;
  return all;
}

MPI_Op operation_of(DType dtype, ReduceOp op) {
  const bool real = dtype == DType::float32 || dtype == DType::float64;
  const std::size_t which = dtype == DType::float64 ? 1 : 0;
  switch (op) {
    case ReduceOp::max:
      return real ? operations().max[which] : MPI_MAX;
    case ReduceOp::min:
      return real ? operations().min[which] : MPI_MIN;
    default:
      return dtype == DType::uint8 ? operations().sum_of_bytes : MPI_SUM;
  }
}

int create_operations() {
  Operations& all = operations();
  struct {
    MPI_User_function* function;
    MPI_Op* op;
  } const wanted[] = {{wrap_around, &all.sum_of_bytes},
                      {keep_nan<float, true>, &all.max[0]},
                      {keep_nan<double, true>, &all.max[1]},
                      {keep_nan<float, false>, &all.min[0]},
                      {keep_nan<double, false>, &all.min[1]}};
  for (const auto& [function, op] : wanted)
    if (const int code = MPI_Op_create(function, 1, op); code != MPI_SUCCESS) return code;
  return MPI_SUCCESS;
}

// call(begin, count) for pieces of [0, count), until one fails.
template <class Call>
const char* in_pieces(std::int64_t count, Call&& call) {
  for (std::int64_t begin = 0; begin < count; begin += piece)
    if (const char* error = outcome(call(begin, static_cast<int>(std::min(piece, count - begin)))))
      return error;
  return nullptr;
}

std::byte* at(void* data, std::int64_t offset) {
  return static_cast<std::byte*>(data) + offset;
}

const char* library() {
  static const std::string text = [] {
    char version[MPI_MAX_LIBRARY_VERSION_STRING];
    int length = 0;
    MPI_Get_library_version(version, &length);
    const std::string all(version, static_cast<std::size_t>(length));
    return all.substr(0, all.find_first_of(",\n"));
  }();
  return text.c_str();
}

// An extension of Open MPI that MPICH has taken over.
bool is_cuda_aware() {
#if defined(MPIX_CUDA_AWARE_SUPPORT) || defined(MPICH_VERSION)
  return MPIX_Query_cuda_support() == 1;
#else
  return false;
#endif
}

const char* initialize(MpiGroup** world) {
  int granted = MPI_THREAD_SINGLE;
  if (const char* error = outcome(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &granted)))
    return error;
  if (granted != MPI_THREAD_MULTIPLE) return "this MPI was built without MPI_THREAD_MULTIPLE";
  auto group = new MpiGroup;
  *world = group;
  // Errors come back as codes instead of ending the process; inherited by what is split off.
  if (const char* error = outcome(MPI_Comm_dup(MPI_COMM_WORLD, &group->comm))) return error;
  if (const char* error = outcome(MPI_Comm_set_errhandler(group->comm, MPI_ERRORS_RETURN)))
    return error;
  return outcome(create_operations());
}

void finalize() {
  MPI_Finalize();
}

int rank_of(const MpiGroup* group) {
  int rank = -1;
  MPI_Comm_rank(group->comm, &rank);
  return rank;
}

int size_of(const MpiGroup* group) {
  int size = 0;
  MPI_Comm_size(group->comm, &size);
  return size;
}

const char* split(MpiGroup* group, int color, int key, MpiGroup** part) {
  MPI_Comm comm = MPI_COMM_NULL;
  *part = nullptr;
  if (const char* error =
          outcome(MPI_Comm_split(group->comm, color < 0 ? MPI_UNDEFINED : color, key, &comm)))
    return error;
  if (comm != MPI_COMM_NULL) *part = new MpiGroup{comm};
  return nullptr;
}

void release(MpiGroup* group) {
  MPI_Comm_free(&group->comm);
  delete group;
}

const char* start_exchange(MpiGroup* group, const void* mine, void* all, std::size_t bytes,
                           MpiExchange** exchange) {
  auto state = new MpiExchange;
  *exchange = state;
  const int ranks = size_of(group);
  state->rank = rank_of(group);
  state->receives.assign(static_cast<std::size_t>(ranks), MPI_REQUEST_NULL);
  state->sends = state->receives;
  const auto length = static_cast<int>(bytes);
  for (int r = 0; r < ranks; ++r) {
    if (r == state->rank) continue;
    void* const place = at(all, r * static_cast<std::int64_t>(bytes));
    if (const char* error = outcome(MPI_Irecv(place, length, MPI_BYTE, r, header_tag, group->comm,
                                              &state->receives[static_cast<std::size_t>(r)])))
      return error;
  }
  for (int step = 1; step < ranks; ++step) {
    // Each rank begins with its neighbour, so that not all talk to rank 0 first.
    const int r = (state->rank + step) % ranks;
    if (const char* error = outcome(MPI_Isend(mine, length, MPI_BYTE, r, header_tag, group->comm,
                                              &state->sends[static_cast<std::size_t>(r)])))
      return error;
  }
  return nullptr;
}

const char* poll_exchange(MpiExchange* exchange, int* missing) {
  for (auto* requests : {&exchange->receives, &exchange->sends}) {
    for (std::size_t r = 0; r < requests->size(); ++r) {
      MPI_Request& request = (*requests)[r];
      if (request == MPI_REQUEST_NULL) continue;
      int done = 0;
      if (const char* error = outcome(MPI_Test(&request, &done, MPI_STATUS_IGNORE))) return error;
      if (done != 0) continue;
      *missing = static_cast<int>(r);
      return nullptr;
    }
  }
  *missing = -1;
  return nullptr;
}

void release_exchange(MpiExchange* exchange) {
  for (MPI_Request& request : exchange->receives) {
    if (request == MPI_REQUEST_NULL) continue;
    MPI_Cancel(&request);  // after which the wait is a local matter
    MPI_Wait(&request, MPI_STATUS_IGNORE);
  }
  for (MPI_Request& request : exchange->sends)
    if (request != MPI_REQUEST_NULL) MPI_Request_free(&request);
  delete exchange;
}

const char* all_reduce(MpiGroup* group, void* data, std::int64_t count, DType dtype, ReduceOp op) {
  const auto element = bytes_of(dtype);
  return in_pieces(count, [&](std::int64_t begin, int length) {
    return MPI_Allreduce(MPI_IN_PLACE, at(data, begin * element), length, type_of(dtype),
                         operation_of(dtype, op), group->comm);
  });
}

const char* reduce(MpiGroup* group, void* data, std::int64_t count, DType dtype, ReduceOp op,
                   int root) {
  const auto element = bytes_of(dtype);
  const bool is_root = rank_of(group) == root;
  return in_pieces(count, [&](std::int64_t begin, int length) {
    void* const place = at(data, begin * element);
    return MPI_Reduce(is_root ? MPI_IN_PLACE : place, is_root ? place : nullptr, length,
                      type_of(dtype), operation_of(dtype, op), root, group->comm);
  });
}

const char* reduce_scatter(MpiGroup* group, void* data, const std::int64_t* borders, DType dtype,
                           ReduceOp op) {
  const auto element = bytes_of(dtype);
  const int ranks = size_of(group), self = rank_of(group);
  std::vector<int> counts;
  bool small = true;
  for (int r = 0; r < ranks; ++r) {
    small = small && borders[r + 1] - borders[r] <= piece;
    counts.push_back(static_cast<int>(borders[r + 1] - borders[r]));
  }
  if (!small) {  // slice by slice, each to its owner
    for (int r = 0; r < ranks; ++r)
      if (const char* error = reduce(group, at(data, borders[r] * element),
                                     borders[r + 1] - borders[r], dtype, op, r))
        return error;
    return nullptr;
  }
  // The in-place form would leave the slice at the beginning of the data.
  const auto bytes = static_cast<std::size_t>(counts[static_cast<std::size_t>(self)] * element);
  std::vector<std::byte> slice(bytes);
  if (const char* error = outcome(MPI_Reduce_scatter(
          data, slice.data(), counts.data(), type_of(dtype), operation_of(dtype, op), group->comm)))
    return error;
  if (bytes > 0) std::memcpy(at(data, borders[self] * element), slice.data(), bytes);
  return nullptr;
}

const char* broadcast(MpiGroup* group, void* data, std::int64_t bytes, int root) {
  return in_pieces(bytes, [&](std::int64_t begin, int length) {
    return MPI_Bcast(at(data, begin), length, MPI_BYTE, root, group->comm);
  });
}

const char* all_gather(MpiGroup* group, void* data, const std::int64_t* borders) {
  const int ranks = size_of(group);
  if (borders[ranks] > INT_MAX) {  // offsets are ints too
    for (int r = 0; r < ranks; ++r)
      if (const char* error =
              broadcast(group, at(data, borders[r]), borders[r + 1] - borders[r], r))
        return error;
    return nullptr;
  }
  std::vector<int> counts, offsets;
  for (int r = 0; r < ranks; ++r) {
    counts.push_back(static_cast<int>(borders[r + 1] - borders[r]));
    offsets.push_back(static_cast<int>(borders[r]));
  }
  return outcome(MPI_Allgatherv(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, data, counts.data(),
                                offsets.data(), MPI_BYTE, group->comm));
}

const char* all_to_all(MpiGroup* group, const void* send, void* receive,
                       std::int64_t bytes_for_each) {
  if (bytes_for_each <= piece)
    return outcome(MPI_Alltoall(send, static_cast<int>(bytes_for_each), MPI_BYTE, receive,
                                static_cast<int>(bytes_for_each), MPI_BYTE, group->comm));
  const int ranks = size_of(group), self = rank_of(group);
  for (int step = 0; step < ranks; ++step) {
    const int to = (self + step) % ranks, from = (self - step + ranks) % ranks;
    const auto* const source = static_cast<const std::byte*>(send) + to * bytes_for_each;
    std::byte* const target = at(receive, from * bytes_for_each);
    if (const char* error = in_pieces(bytes_for_each, [&](std::int64_t begin, int length) {
          return MPI_Sendrecv(source + begin, length, MPI_BYTE, to, header_tag + 1, target + begin,
                              length, MPI_BYTE, from, header_tag + 1, group->comm,
                              MPI_STATUS_IGNORE);
        }))
      return error;
  }
  return nullptr;
}

}  // namespace

extern "C" const MpiApi* lockstep_mpi_api();
extern "C" const MpiApi* lockstep_mpi_api() {
  static constexpr MpiApi api = {.layout = MpiApi::current_layout,
                                 .library = library,
                                 .is_cuda_aware = is_cuda_aware,
                                 .initialize = initialize,
                                 .finalize = finalize,
                                 .rank = rank_of,
                                 .size = size_of,
                                 .split = split,
                                 .release = release,
                                 .start_exchange = start_exchange,
                                 .poll_exchange = poll_exchange,
                                 .release_exchange = release_exchange,
                                 .all_reduce = all_reduce,
                                 .reduce = reduce,
                                 .reduce_scatter = reduce_scatter,
                                 .all_gather = all_gather,
                                 .broadcast = broadcast,
                                 .all_to_all = all_to_all};
  return &api;
}

}  // namespace lockstep::comm
