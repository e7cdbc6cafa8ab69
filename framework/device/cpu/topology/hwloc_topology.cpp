#include <fmt/format.h>
#include <hwloc.h>

#include <initializer_list>
#include <memory>

#include "framework/base/error.h"
#include "framework/device/cpu/placement.h"

namespace lockstep::device {

namespace {

struct Destroy {
  void operator()(hwloc_topology_t topology) const { hwloc_topology_destroy(topology); }
  void operator()(hwloc_bitmap_t bitmap) const { hwloc_bitmap_free(bitmap); }
};
using Handle = std::unique_ptr<hwloc_topology, Destroy>;
using Bitmap = std::unique_ptr<hwloc_bitmap_s, Destroy>;

// Looks at what is asked for alone: each rank waits for this when it starts. (The x86 component
// would visit every core in turn for details that Linux has too.)
Handle make_handle() {
  hwloc_topology_t topology = nullptr;
  if (hwloc_topology_init(&topology) != 0) throw StartupError("hwloc cannot start");
  Handle handle(topology);
  hwloc_topology_set_components(topology, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST, "x86");
  hwloc_topology_set_all_types_filter(topology, HWLOC_TYPE_FILTER_KEEP_NONE);
  for (const auto type : {HWLOC_OBJ_PACKAGE, HWLOC_OBJ_L3CACHE, HWLOC_OBJ_CORE})
    hwloc_topology_set_type_filter(topology, type, HWLOC_TYPE_FILTER_KEEP_ALL);
  // Where a memory node is less than a package, a group is what holds its cores.
  hwloc_topology_set_type_filter(topology, HWLOC_OBJ_GROUP, HWLOC_TYPE_FILTER_KEEP_STRUCTURE);
  return handle;
}

void load(const Handle& handle) {
  if (hwloc_topology_load(handle.get()) != 0)
    throw StartupError("hwloc cannot read how this machine is built");
}

// hwloc's logical order puts what shares caches and nodes side by side.
Topology read(const Handle& handle, hwloc_const_bitmap_t allowed) {
  Topology topology;
  // Some virtual machines do not say what is a core.
  const auto type =
      hwloc_get_nbobjs_by_type(handle.get(), HWLOC_OBJ_CORE) > 0 ? HWLOC_OBJ_CORE : HWLOC_OBJ_PU;
  hwloc_obj_t core = nullptr;
  while ((core = hwloc_get_next_obj_by_type(handle.get(), type, core)) != nullptr) {
    Topology::Core found;
    found.node = core->nodeset ? hwloc_bitmap_first(core->nodeset) : 0;
    for (int cpu = hwloc_bitmap_first(core->cpuset); cpu >= 0;
         cpu = hwloc_bitmap_next(core->cpuset, cpu))
      if (hwloc_bitmap_isset(allowed, static_cast<unsigned>(cpu)) != 0) found.cpus.push_back(cpu);
    if (!found.cpus.empty()) topology.cores.push_back(std::move(found));
  }
  return topology;
}

}  // namespace

std::optional<Topology> allowed_topology() {
  const Handle handle = make_handle();
  load(handle);
  const Bitmap allowed(hwloc_bitmap_alloc());
  if (hwloc_get_cpubind(handle.get(), allowed.get(), HWLOC_CPUBIND_THREAD) != 0)
    throw StartupError("hwloc cannot say which cores this thread may use");
  Topology topology = read(handle, allowed.get());
  if (topology.cores.empty()) throw StartupError("hwloc finds no core that this thread may use");
  return topology;
}

std::optional<Topology> synthetic_topology(const std::string& description,
                                           const std::vector<int>& allowed) {
  const Handle handle = make_handle();
  if (hwloc_topology_set_synthetic(handle.get(), description.c_str()) != 0)
    throw UsageError(fmt::format("hwloc does not understand \"{}\"", description));
  load(handle);
  const Bitmap cpus(hwloc_bitmap_alloc());
  for (const int cpu : allowed) hwloc_bitmap_set(cpus.get(), static_cast<unsigned>(cpu));
  if (allowed.empty()) hwloc_bitmap_fill(cpus.get());
  return read(handle, cpus.get());
}

}  // namespace lockstep::device
