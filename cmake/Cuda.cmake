# CUDA, found by itself: without a toolkit the same targets are built for the CPU alone.
#
# Every library with CUDA code comes in two forms with the same symbols: lockstep_<name>, for GPUs
# (or, without a toolkit, the file that says so), and lockstep_<name>_emulated, the same sources
# compiled by the C++ compiler for the emulated GPUs of tests/emulation. A program links the second
# form of all of them when lockstep_emulate() was called for it, otherwise the first.
option(LOCKSTEP_CUDA "Build for GPUs where a CUDA toolkit is found" ON)
option(LOCKSTEP_CUDA_ALL_ARCHITECTURES "Build for every supported GPU, not for one and PTX" OFF)
set(LOCKSTEP_CUDA_OLDEST 12.0)

# Sanitizers watch the emulated form: the other needs a GPU.
if(LOCKSTEP_CUDA AND NOT LOCKSTEP_SANITIZE)
  if(NOT CMAKE_CUDA_ARCHITECTURES)
    # PTX of the oldest supported architecture serves all others, compiled when the program starts.
    set(CMAKE_CUDA_ARCHITECTURES 80-virtual 90-real)
    if(LOCKSTEP_CUDA_ALL_ARCHITECTURES)
      set(CMAKE_CUDA_ARCHITECTURES 80 90-real 100)
    endif()
  endif()
  include(CheckLanguage)
  check_language(CUDA)
  if(CMAKE_CUDA_COMPILER)
    find_package(CUDAToolkit ${LOCKSTEP_CUDA_OLDEST})
  endif()
  if(CUDAToolkit_FOUND)
    enable_language(CUDA)
  endif()
endif()
set(LOCKSTEP_HAS_CUDA ${CUDAToolkit_FOUND})
if(LOCKSTEP_HAS_CUDA)
  set(CMAKE_CUDA_STANDARD 20)
  set(CMAKE_CUDA_STANDARD_REQUIRED ON)
  # CMake 3.25 does not know that nvcc has C++20 since 12.0.
  if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)
    set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
    set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION "-std=c++20")
  endif()
  set(CMAKE_CUDA_FLAGS_RELEASE "-O3")
  if(CCACHE AND NOT CMAKE_CUDA_COMPILER_LAUNCHER)
    set(CMAKE_CUDA_COMPILER_LAUNCHER ${CCACHE})
  endif()
  message(STATUS "CUDA ${CUDAToolkit_VERSION} for architectures ${CMAKE_CUDA_ARCHITECTURES}")
else()
  message(STATUS "CUDA: none; building for the CPU")
endif()

# The runtime is linked statically and loads the driver when it is first used, so that a program
# starts on machines without one.
add_library(lockstep_cuda_runtime INTERFACE)
target_link_libraries(lockstep_cuda_runtime INTERFACE
  $<$<BOOL:${LOCKSTEP_HAS_CUDA}>:CUDA::cudart_static>)
# Device code contracts no multiplication with an addition by itself either, and may call constexpr
# functions of the project's ordinary headers. Line numbers are for profilers and cost nothing.
target_compile_options(lockstep_cuda_runtime INTERFACE
  "$<$<COMPILE_LANGUAGE:CUDA>:SHELL:-Werror all-warnings;-fmad=false;--expt-relaxed-constexpr;-lineinfo>"
  "$<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-Wall,-Wextra,-Wconversion,-Wshadow,-Werror,-ffp-contract=off>")

add_library(lockstep_cuda_emulated_runtime INTERFACE)
target_include_directories(lockstep_cuda_emulated_runtime BEFORE INTERFACE
  ${PROJECT_SOURCE_DIR}/tests/emulation/include)
target_compile_options(lockstep_cuda_emulated_runtime INTERFACE -Wno-unknown-pragmas)
target_link_libraries(lockstep_cuda_emulated_runtime INTERFACE lockstep_emulation)

# For each .cu file a C++ file that includes it, in `result`; other files as they are.
function(lockstep_as_cxx result)
  set(sources)
  foreach(source ${ARGN})
    get_filename_component(source ${source} ABSOLUTE)
    if(source MATCHES "\\.cu$")
      file(RELATIVE_PATH relative ${PROJECT_SOURCE_DIR} ${source})
      set(wrapper ${PROJECT_BINARY_DIR}/emulated/${relative}.cpp)
      file(CONFIGURE OUTPUT ${wrapper} CONTENT "#include \"${relative}\"\n" @ONLY)
      set(source ${wrapper})
    endif()
    list(APPEND sources ${source})
  endforeach()
  set(${result} ${sources} PARENT_SCOPE)
endfunction()

# lockstep_cuda_library(<name> OF <library> SOURCES file... [WITHOUT file...] [GPU_ONLY file...]
# [DEPENDS target...]): the CUDA part of lockstep_<library>, in both forms. SOURCES (.cu and .cpp,
# patterns allowed) are replaced by WITHOUT where there is no toolkit; what GPU_ONLY defines, the
# emulation defines itself. Both are left out of the patterns. Whoever links lockstep_<library> links the form that
# fits; the part may use the library and be used by it.
function(lockstep_cuda_library name)
  cmake_parse_arguments(arg "" "OF" "SOURCES;WITHOUT;GPU_ONLY;DEPENDS" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS ${arg_SOURCES})
  foreach(other ${arg_WITHOUT} ${arg_GPU_ONLY})
    list(REMOVE_ITEM sources ${CMAKE_CURRENT_SOURCE_DIR}/${other})
  endforeach()
  if(LOCKSTEP_HAS_CUDA)
    add_library(lockstep_${name} STATIC ${sources} ${arg_GPU_ONLY})
  else()
    add_library(lockstep_${name} STATIC ${arg_WITHOUT})
  endif()
  target_link_libraries(lockstep_${name} PUBLIC lockstep_${arg_OF} ${arg_DEPENDS}
                                         PRIVATE lockstep_cuda_runtime)
  set(form lockstep_${name})
  if(LOCKSTEP_TESTS)
    lockstep_as_cxx(sources ${sources})
    add_library(lockstep_${name}_emulated STATIC ${sources})
    target_link_libraries(lockstep_${name}_emulated PUBLIC lockstep_${arg_OF} ${arg_DEPENDS}
                                                           lockstep_cuda_emulated_runtime)
    if(LOCKSTEP_COVERAGE)
      # Without optimisation a line is what the source says it is. Nothing else is instrumented.
      target_compile_options(lockstep_${name}_emulated PRIVATE --coverage -O0)
      target_link_options(lockstep_${name}_emulated INTERFACE --coverage)
    endif()
    lockstep_emulate(lockstep_${name}_emulated)
    set(form "$<IF:$<BOOL:$<TARGET_PROPERTY:LOCKSTEP_EMULATED>>,lockstep_${name}_emulated,lockstep_${name}>")
  endif()
  target_link_libraries(lockstep_${arg_OF} PUBLIC ${form})
endfunction()

# The target, a program or library of the tests, stands on emulated GPUs.
function(lockstep_emulate target)
  set_target_properties(${target} PROPERTIES LOCKSTEP_EMULATED ON)
endfunction()

# lockstep_emulated_program(<name> SOURCES file... DEPENDS target...): a program on emulated GPUs.
function(lockstep_emulated_program name)
  cmake_parse_arguments(arg "" "" "SOURCES;DEPENDS" ${ARGN})
  lockstep_as_cxx(sources ${arg_SOURCES})
  add_executable(${name} ${sources})
  target_link_libraries(${name} PRIVATE ${arg_DEPENDS} lockstep_cuda_emulated_runtime)
  lockstep_emulate(${name})
endfunction()

# A test of its own: the cases that pass `filter` under the seeds `first`, `first` + 1, ...
function(lockstep_add_seeds name case label first count filter)
  add_test(NAME ${name}.${case} COMMAND ${name}_test
    --gtest_brief=1 --gtest_repeat=${count} --gtest_filter=${filter})
  set_tests_properties(${name}.${case} PROPERTIES LABELS ${label} TIMEOUT 1200
    ENVIRONMENT LOCKSTEP_EMULATION_SEED=${first})
endfunction()

# lockstep_cuda_tests(<name> DEPENDS target... [TIMEOUT seconds] [FOLDERS folder...] [SOURCES file...]
# [EMULATED file...] [SEEDED filter]): tests of CUDA code, of every .cpp and .cu of this folder and
# FOLDERS and of SOURCES, as two programs: <name>_emulated_test, whose cases carry the label emulation,
# and, with a toolkit, <name>_gpu_test with the label gpu, whose cases are skipped where there is no
# GPU. Only the first has what EMULATED names: tests that ask the emulation for what no GPU does at
# will. Cases that pass the filter SEEDED run under three more seeds too; all under ten (slow).
function(lockstep_cuda_tests name)
  cmake_parse_arguments(arg "" "TIMEOUT;SEEDED" "DEPENDS;FOLDERS;SOURCES;EMULATED" ${ARGN})
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 120)
  endif()
  set(patterns *.cpp *.cu)
  foreach(folder ${arg_FOLDERS})
    list(APPEND patterns ${folder}/*.cpp ${folder}/*.cu)
  endforeach()
  file(GLOB sources CONFIGURE_DEPENDS ${patterns})
  list(APPEND sources ${arg_SOURCES})
  set(emulated)
  if(arg_EMULATED)
    file(GLOB emulated CONFIGURE_DEPENDS ${arg_EMULATED})
  endif()
  lockstep_emulated_program(${name}_emulated_test SOURCES ${sources} ${emulated}
    DEPENDS ${arg_DEPENDS} lockstep_emulation_main GTest::gtest GTest::gmock)
  lockstep_discover_with_slow(${name}_emulated emulation ${arg_TIMEOUT})
  if(arg_SEEDED)
    lockstep_add_seeds(${name}_emulated OtherSeeds emulation 2 3 "${arg_SEEDED}")
    lockstep_add_seeds(${name}_emulated SlowManySeeds slow 5 10 "-*Slow*")
  endif()
  if(LOCKSTEP_HAS_CUDA)
    add_executable(${name}_gpu_test ${sources})
    target_link_libraries(${name}_gpu_test PRIVATE
      ${arg_DEPENDS} lockstep_gpu_main lockstep_cuda_runtime GTest::gtest GTest::gmock)
    if(NOT TARGET gpu_tests)
      add_custom_target(gpu_tests)  # all of them
    endif()
    add_dependencies(gpu_tests ${name}_gpu_test)
    gtest_discover_tests(${name}_gpu_test DISCOVERY_MODE PRE_TEST DISCOVERY_TIMEOUT 60
      TEST_PREFIX ${name}_gpu. TEST_LIST ${name}_gpu_tests
      PROPERTIES TIMEOUT ${arg_TIMEOUT} LABELS gpu SKIP_RETURN_CODE 77)
  endif()
endfunction()
