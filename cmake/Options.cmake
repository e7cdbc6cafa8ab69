# Language level, warnings, sanitizers and where programs land.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)
# Assertions stay on in every build: they are few, cheap, and stand where an error would go unseen.
set(CMAKE_CXX_FLAGS_RELEASE "-O3")
set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O2 -g")
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()

find_program(CCACHE ccache)
if(CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # Paths below the repository count as relative, so that every clone shares the cache.
  set(CMAKE_CXX_COMPILER_LAUNCHER
      ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} CCACHE_NOHASHDIR=1 ${CCACHE})
endif()

add_library(lockstep_options INTERFACE)
target_include_directories(lockstep_options INTERFACE ${PROJECT_SOURCE_DIR})
# The bits of a result must not depend on where the compiler found a multiply next to an add.
set(in_cxx $<COMPILE_LANGUAGE:CXX>)  # nvcc has flags of its own, in Cuda.cmake
target_compile_options(lockstep_options INTERFACE
  "$<${in_cxx}:-Wall;-Wextra;-Wconversion;-Wshadow;-Wnon-virtual-dtor;-Werror;-ffp-contract=off>")
# GCC 12 sees overlaps in std::string's operator+ (its bug 105651) and overflows in fmt::join that are none.
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  target_compile_options(lockstep_options INTERFACE
    "$<${in_cxx}:-Wno-restrict;-Wno-stringop-overflow>")
  # With AVX-512 it also turns a constant block of 32 bytes whose lower half repeats and whose upper half
  # is zero into a broadcast of the lower half. Moving 16 bytes at a time avoids it.
  if(CMAKE_CXX_COMPILER_VERSION VERSION_GREATER_EQUAL 12 AND CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
    target_compile_options(lockstep_options INTERFACE "$<${in_cxx}:-mmove-max=128;-mstore-max=128>")
  endif()
endif()
if(LOCKSTEP_NATIVE)
  target_compile_options(lockstep_options INTERFACE $<${in_cxx}:-march=native>)
endif()
# GCC warns of uninitialised variables that are none once a sanitizer's checks stand between their uses.
if(LOCKSTEP_SANITIZE)
  string(REPLACE ";" "," sanitizers "${LOCKSTEP_SANITIZE}")
  target_compile_options(lockstep_options INTERFACE
    -fsanitize=${sanitizers} -fno-sanitize-recover=all -fno-omit-frame-pointer -Wno-maybe-uninitialized)
  target_link_options(lockstep_options INTERFACE -fsanitize=${sanitizers})
endif()
