#include "data/hdf5_table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "data/hdf5_attributes.h"
#include "framework/base/error.h"

namespace lockstep::data::hdf5 {

std::vector<std::string> member_names(hid_t group, const std::string& where) {
  H5G_info_t info{};
  check(H5Gget_info(group, &info), where);
  std::vector<std::string> names;
  for (hsize_t i = 0; i < info.nlinks; ++i) {
    const auto get = [&](char* name, std::size_t size) {
      return check(
          H5Lget_name_by_idx(group, ".", H5_INDEX_NAME, H5_ITER_INC, i, name, size, H5P_DEFAULT),
          where);
    };
    std::string name(static_cast<std::size_t>(get(nullptr, 0)), '\0');
    get(name.data(), name.size() + 1);
    names.push_back(std::move(name));
  }
  return names;
}

std::string listed(const std::vector<std::string>& names) {
  return names.empty() ? "nothing" : fmt::format("'{}'", fmt::join(names, "', '"));
}

std::string Table::type_name() const {
  return describe_type(type.get());
}

Table open_table(hid_t group, const std::string& name, const std::string& group_where,
                 Access access) {
  Table table;
  table.where = group_where + "/" + name;
  const auto names = member_names(group, group_where);
  if (std::ranges::find(names, name) == names.end()) {
    throw DataError(
        fmt::format("{}: found {}, expected a dataset '{}'", group_where, listed(names), name));
  }
  const Handle options(H5Pcreate(H5P_DATASET_ACCESS), H5Pclose, table.where);
  if (access == Access::whole_chunks) {
    check(H5Pset_chunk_cache(options.get(), 0, 0, 1), table.where);
  }
  table.dataset = Handle(H5Dopen2(group, name.c_str(), options.get()), H5Dclose,
                         table.where + ": cannot be opened as a dataset");
  table.type = Handle(H5Dget_type(table.dataset.get()), H5Tclose, table.where);

  const Handle space(H5Dget_space(table.dataset.get()), H5Sclose, table.where);
  const int rank = check(H5Sget_simple_extent_ndims(space.get()), table.where);
  std::vector<hsize_t> extents(static_cast<std::size_t>(rank));
  check(H5Sget_simple_extent_dims(space.get(), extents.data(), nullptr), table.where);
  table.extents.assign(extents.begin(), extents.end());

  const Handle layout(H5Dget_create_plist(table.dataset.get()), H5Pclose, table.where);
  if (H5Pget_layout(layout.get()) == H5D_CHUNKED) {
    check(H5Pget_chunk(layout.get(), rank, extents.data()), table.where);
    table.chunk_rows = static_cast<std::int64_t>(extents[0]);
  }
  if (check(H5Pall_filters_avail(layout.get()), table.where) == 0) {
    throw DataError(table.where + ": is compressed by a filter that this HDF5 library lacks");
  }
  return table;
}

void read_rows(const Table& table, hid_t memory_type, std::int64_t first, std::int64_t rows,
               void* out) {
  const Handle file_space(H5Dget_space(table.dataset.get()), H5Sclose, table.where);
  std::vector<hsize_t> start(table.extents.size(), 0);
  std::vector<hsize_t> count(table.extents.begin(), table.extents.end());
  start[0] = static_cast<hsize_t>(first);
  count[0] = static_cast<hsize_t>(rows);
  const std::string& what = table.where;
  check(H5Sselect_hyperslab(file_space.get(), H5S_SELECT_SET, start.data(), nullptr, count.data(),
                            nullptr),
        what);
  const Handle memory_space(H5Screate_simple(static_cast<int>(count.size()), count.data(), nullptr),
                            H5Sclose, what);
  if (H5Dread(table.dataset.get(), memory_type, memory_space.get(), file_space.get(), H5P_DEFAULT,
              out) < 0) {
    hdf5::fail(fmt::format("{}: rows [{}, {}) cannot be read", what, first, first + rows));
  }
}

}  // namespace lockstep::data::hdf5
