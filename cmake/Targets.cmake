# lockstep_library(<name> [DEPENDS target...] [FOLDERS folder...]): every .cpp directly in this folder
# and in FOLDERS, without main.cpp. The target is lockstep_<name>.
function(lockstep_library name)
  cmake_parse_arguments(arg "" "" "DEPENDS;FOLDERS" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS *.cpp)
  foreach(folder ${arg_FOLDERS})
    file(GLOB more CONFIGURE_DEPENDS ${folder}/*.cpp)
    list(APPEND sources ${more})
  endforeach()
  list(FILTER sources EXCLUDE REGEX "/main\\.cpp$")
  if(NOT sources)  # headers alone: an archive needs one object
    set(sources ${CMAKE_CURRENT_BINARY_DIR}/headers_only.cpp)
    file(CONFIGURE OUTPUT ${sources} CONTENT "")
  endif()
  add_library(lockstep_${name} STATIC ${sources})
  target_link_libraries(lockstep_${name} PUBLIC lockstep_options Threads::Threads fmt::fmt ${arg_DEPENDS})
  set_target_properties(lockstep_${name} PROPERTIES LINKER_LANGUAGE CXX)
endfunction()

# lockstep_tests(<name> DEPENDS target... [LABELS label...] [TIMEOUT seconds]): one program from every
# *_test.cpp of this folder, each case a CTest test with its own time limit.
function(lockstep_tests name)
  cmake_parse_arguments(arg "" "TIMEOUT" "DEPENDS;LABELS;FOLDERS" ${ARGN})
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 60)
  endif()
  if(NOT arg_LABELS)
    set(arg_LABELS unit)
  endif()
  file(GLOB sources CONFIGURE_DEPENDS *.cpp)
  foreach(folder ${arg_FOLDERS})
    file(GLOB more CONFIGURE_DEPENDS ${folder}/*.cpp)
    list(APPEND sources ${more})
  endforeach()
  if(NOT sources)
    return()
  endif()
  add_executable(${name}_test ${sources})
  target_link_libraries(${name}_test PRIVATE ${arg_DEPENDS} GTest::gtest GTest::gmock GTest::gtest_main)
  # Programs are asked for their cases when CTest runs; a busy machine may take its time to answer.
  gtest_discover_tests(${name}_test DISCOVERY_MODE PRE_TEST DISCOVERY_TIMEOUT 60
    TEST_PREFIX ${name}. PROPERTIES TIMEOUT ${arg_TIMEOUT} LABELS "${arg_LABELS}")
endfunction()
