// Table: an HDF5 dataset whose first axis counts rows. Private to this folder; callers hold
// hdf5::lock().
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/hdf5.h"

namespace lockstep::data::hdf5 {

// What the header of a dataset says, before it is judged.
struct Table {
  Handle dataset;
  Handle type;
  std::vector<std::int64_t> extents;
  std::int64_t chunk_rows = 0;  // 0: not chunked
  std::string where;            // "file.h5: /train/features"

  std::string type_name() const;
};

// How a dataset is going to be read.
enum class Access : std::uint8_t {
  cached,        // in any pieces
  whole_chunks,  // each chunk once: a cache would only cost a copy and memory
};

// `where` names the group in messages. Throws DataError, listing what the group holds when the
// dataset is not there.
Table open_table(hid_t group, const std::string& name, const std::string& where, Access access);

// Rows [first, first + rows) into `out`, converted to the library's memory type.
void read_rows(const Table& table, hid_t memory_type, std::int64_t first, std::int64_t rows,
               void* out);

std::vector<std::string> member_names(hid_t group, const std::string& where);
std::string listed(const std::vector<std::string>& names);  // "'a', 'b'" or "nothing"

}  // namespace lockstep::data::hdf5
