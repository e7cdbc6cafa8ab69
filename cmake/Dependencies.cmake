find_package(Threads REQUIRED)
find_package(fmt REQUIRED)
find_package(spdlog REQUIRED)
find_package(yaml-cpp REQUIRED)
find_package(CLI11 REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(ZLIB REQUIRED)
find_package(HDF5 REQUIRED COMPONENTS C)
find_package(PkgConfig REQUIRED)
pkg_check_modules(XXHASH REQUIRED IMPORTED_TARGET libxxhash)

# Backends beside the own one: each is built where its library is installed.
find_package(Gloo QUIET)
find_package(MPI QUIET COMPONENTS C)
pkg_check_modules(HWLOC QUIET IMPORTED_TARGET hwloc)

if(LOCKSTEP_TESTS)
  find_package(GTest REQUIRED)
endif()
