// ResidentRows: all rows of a split, read once per host, each worker reading its part. Private to
// this folder.
#pragma once

#include "data/dataset_file.h"
#include "data/row_memory.h"
#include "data/row_store.h"
#include "data/shared_storage.h"

namespace lockstep::data {

class ResidentRows final : public RowStore {
 public:
  // Collective. `sampler` must outlive this; the file is not needed afterwards.
  ResidentRows(const DatasetFile& file, const SplitInfo& split, const Sampler& sampler,
               SharedStorage& storage, bool verify);

  void seek(std::int64_t, std::int64_t) override {}
  GroupRows enter(std::int64_t epoch, std::int64_t group, const std::stop_token& stop) override;
  void read_ahead(std::int64_t, const std::stop_token&) override {}

 private:
  const Sampler& sampler_;
  Group group_;
  RowMemory memory_;
};

}  // namespace lockstep::data
