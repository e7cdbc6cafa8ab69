# The .cpp files of this folder and of the given folders below it, in `result`.
function(lockstep_sources result)
  set(patterns *.cpp)
  foreach(folder ${ARGN})
    list(APPEND patterns ${folder}/*.cpp)
  endforeach()
  file(GLOB sources CONFIGURE_DEPENDS ${patterns})
  set(${result} ${sources} PARENT_SCOPE)
endfunction()

# lockstep_library(<name> [DEPENDS target...] [FOLDERS folder...]): every .cpp directly in this folder
# and in FOLDERS, without main.cpp. The target is lockstep_<name>.
function(lockstep_library name)
  cmake_parse_arguments(arg "" "" "DEPENDS;FOLDERS" ${ARGN})
  lockstep_sources(sources ${arg_FOLDERS})
  list(FILTER sources EXCLUDE REGEX "/main\\.cpp$")
  add_library(lockstep_${name} STATIC ${sources})
  target_link_libraries(lockstep_${name} PUBLIC lockstep_options Threads::Threads fmt::fmt ${arg_DEPENDS})
endfunction()

# lockstep_tests(<name> DEPENDS target... [LABEL label] [TIMEOUT seconds] [FOLDERS folder...]): one
# program, <name>_test, of every .cpp of this folder and FOLDERS; each case is a CTest test of its own
# with its own time limit. Cases with "Slow" in their names carry the label slow instead and have ten
# times the limit.
function(lockstep_tests name)
  cmake_parse_arguments(arg "" "TIMEOUT;LABEL" "DEPENDS;FOLDERS" ${ARGN})
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 60)
  endif()
  if(NOT arg_LABEL)
    set(arg_LABEL unit)
  endif()
  lockstep_sources(sources ${arg_FOLDERS})
  if(NOT sources)
    return()
  endif()
  add_executable(${name}_test ${sources})
  target_link_libraries(${name}_test PRIVATE ${arg_DEPENDS} GTest::gtest GTest::gmock GTest::gtest_main)
  lockstep_discover_with_slow(${name} ${arg_LABEL} ${arg_TIMEOUT})
endfunction()

# Cases whose names say Slow carry the label slow, and ten times the time limit, instead.
function(lockstep_discover_with_slow name label timeout)
  math(EXPR slow_timeout "10 * ${timeout}")
  lockstep_discover(${name} "-*Slow*" ${label} ${timeout})
  lockstep_discover(${name} "*Slow*" slow ${slow_timeout})
endfunction()

# Programs are asked for their cases when CTest runs; a busy machine may take its time to answer.
# Sanitizers make them many times slower.
function(lockstep_discover name filter label timeout)
  if(LOCKSTEP_SANITIZE)
    math(EXPR timeout "5 * ${timeout}")
  endif()
  gtest_discover_tests(${name}_test DISCOVERY_MODE PRE_TEST DISCOVERY_TIMEOUT 60
    TEST_PREFIX ${name}. TEST_FILTER "${filter}" TEST_LIST ${name}_${label}_tests
    PROPERTIES TIMEOUT ${timeout} LABELS ${label})
endfunction()
