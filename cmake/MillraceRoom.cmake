# Sets `result` to the .cc files of the current folder and of those below it, but for those that match
# one of the regular expressions. A new file is found by the next build.
function(millrace_sources result)
  file(GLOB_RECURSE sources RELATIVE ${CMAKE_CURRENT_SOURCE_DIR} CONFIGURE_DEPENDS *.cc)
  foreach(pattern IN LISTS ARGN)
    list(FILTER sources EXCLUDE REGEX ${pattern})
  endforeach()
  set(${result} ${sources} PARENT_SCOPE)
endfunction()

# millrace_room(NAME EXCEPT ... LINK ... PRIVATE_LINK ... HEADERS_OF room)
# One room is one library target `millrace_<name>`, exported as `millrace::<name>`; static unless
# BUILD_SHARED_LIBS is on. Its sources are those of its folder except what matches EXCEPT. LINK holds
# the rooms below it; PRIVATE_LINK the third-party libraries, whose headers stay inside .cc files.
# HEADERS_OF is the room whose precompiled headers it shares: one that is compiled with the same options and
# no macro more.
function(millrace_room name)
  cmake_parse_arguments(ROOM "" "HEADERS_OF" "EXCEPT;LINK;PRIVATE_LINK" ${ARGN})
  millrace_sources(sources ${ROOM_EXCEPT})
  add_library(millrace_${name} ${sources})
  add_library(millrace::${name} ALIAS millrace_${name})
  # No export macro for shared libraries: all symbols are exported, and the objects are the same as
  # for static ones.
  set_target_properties(millrace_${name} PROPERTIES EXPORT_NAME ${name} DEFINE_SYMBOL ""
    VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR}
    INSTALL_RPATH $ORIGIN)
  target_include_directories(millrace_${name} PUBLIC
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>
    $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  if(NOT PROJECT_IS_TOP_LEVEL)
    target_include_directories(millrace_${name} INTERFACE
      $<BUILD_INTERFACE:${PROJECT_BINARY_DIR}/include>)
  endif()
  target_compile_features(millrace_${name} PUBLIC cxx_std_20)
  target_link_libraries(millrace_${name} PUBLIC ${ROOM_LINK} PRIVATE ${ROOM_PRIVATE_LINK})
  millrace_warnings(millrace_${name})
  if(ROOM_HEADERS_OF AND MILLRACE_PRECOMPILE)
    millrace_group(millrace_${name})
    target_precompile_headers(millrace_${name} REUSE_FROM millrace_${ROOM_HEADERS_OF})
  else()
    millrace_precompile(millrace_${name})
  endif()
  set_property(GLOBAL APPEND PROPERTY MILLRACE_ROOMS millrace_${name})
endfunction()

# Warnings and sanitizers are PRIVATE: never passed on to users of the library.
function(millrace_warnings target)
  target_compile_options(${target} PRIVATE -Wall -Wextra -Wpedantic -Wshadow -Wconversion
    -Wnon-virtual-dtor -Woverloaded-virtual
    $<$<CXX_COMPILER_ID:Clang>:-Wthread-safety>
    # g++ 12 reports false overlaps and overflows in std::string's = and + (GCC bugs 105329 and
    # 105651).
    $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict -Wno-stringop-overflow>)
  if(MILLRACE_SANITIZE)
    target_compile_options(${target} PRIVATE -fsanitize=${MILLRACE_SANITIZE}
      -fno-omit-frame-pointer -fno-sanitize-recover=all)
    target_link_options(${target} PUBLIC -fsanitize=${MILLRACE_SANITIZE})
  endif()
endfunction()

# On few cores the least work is the shortest build; on many, the shortest of the longest pieces.
cmake_host_system_information(RESULT millrace_cores QUERY NUMBER_OF_LOGICAL_CORES)
if(MILLRACE_GROUP_SIZE)
  set(millrace_group_size ${MILLRACE_GROUP_SIZE})
elseif(millrace_cores GREATER 4)
  set(millrace_group_size 8)
else()
  set(millrace_group_size 40)
endif()

# With memory for it the compiler collects no garbage before its heap has so many KB, which takes a seventh of the time of
# so large a group (g++ 12).
cmake_host_system_information(RESULT millrace_memory QUERY TOTAL_PHYSICAL_MEMORY)
math(EXPR millrace_memory "${millrace_memory} / ${millrace_cores}")
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU AND millrace_memory GREATER 3500)
  set(millrace_heap_options "SHELL:--param ggc-min-heapsize=1500000")
endif()

# Sources compiled about so many at a time: templates are instantiated once for all of them. A file's
# name decides its group, so that a new file changes one. Names in a target's unnamed namespaces are distinct
# (the test layers.names), and types there are not the main file's, of which g++ warns. Those in
# MILLRACE_ALONE are compiled alone: what is being edited.
function(millrace_group target)
  set_property(GLOBAL APPEND PROPERTY MILLRACE_GROUPED ${target})
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
  get_target_property(sources ${target} SOURCES)
  list(FILTER sources INCLUDE REGEX "\\.cc$")
  list(LENGTH sources count)
  math(EXPR groups "(${count} + ${millrace_group_size} - 1) / ${millrace_group_size}")
  foreach(source IN LISTS sources)
    string(MD5 hash ${source})
    string(SUBSTRING ${hash} 0 6 hash)
    math(EXPR group "0x${hash} % ${groups}")
    set_source_files_properties(${source} PROPERTIES UNITY_GROUP g${group})
    cmake_path(ABSOLUTE_PATH source BASE_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR} OUTPUT_VARIABLE path)
    cmake_path(RELATIVE_PATH path BASE_DIRECTORY ${PROJECT_SOURCE_DIR})
    if(path IN_LIST MILLRACE_ALONE)
      set_source_files_properties(${source} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
    endif()
  endforeach()
  target_compile_options(${target} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage> ${millrace_heap_options})
endfunction()

# millrace_precompile(TARGET HEADER...): the standard library (and HEADERs) parsed once per target, and
# the sources compiled in groups: a third of the time. The clang preset builds without, so that no
# source misses an #include.
function(millrace_precompile target)
  if(MILLRACE_PRECOMPILE)
    millrace_group(${target})
    target_precompile_headers(${target} PRIVATE <algorithm> <array> <atomic> <chrono>
      <condition_variable> <cstdint> <cstring> <deque> <exception> <filesystem> <fstream> <functional>
      <iostream> <map> <memory> <mutex> <numeric> <optional> <set> <span> <sstream> <string>
      <string_view> <thread> <unordered_map> <variant> <vector> ${ARGN})
  endif()
endfunction()

# Tests and the program are compiled in half of the time with little optimisation, tests with none, and
# what takes long in them is in the rooms' libraries. One program precompiles the headers of all tests.
# At -O1 g++ 12 wrongly reports std::string's own buffer as uninitialised.
set(millrace_test_options -O0)
if(MILLRACE_SANITIZE)
  set(millrace_quick_options -O0)
else()
  set(millrace_quick_options -O1 $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)
endif()
function(millrace_test_headers)
  add_executable(millrace_test_headers EXCLUDE_FROM_ALL test_headers.cc)
  target_link_libraries(millrace_test_headers PRIVATE GTest::gmock)
  target_compile_features(millrace_test_headers PRIVATE cxx_std_20)
  millrace_warnings(millrace_test_headers)
  target_compile_options(millrace_test_headers PRIVATE ${millrace_test_options})
  millrace_precompile(millrace_test_headers <gmock/gmock.h> <gtest/gtest.h>)
endfunction()

# Sets `result` to the list of GoogleTest's patterns that select the suites in these sources, and in the conformance
# suites that they include.
function(millrace_suites result)
  set(patterns "")
  foreach(source IN LISTS ARGN)
    file(STRINGS ${source} tests REGEX "^TEST(_F|_P)?\\(")
    file(STRINGS ${source} conformance REGEX "^#include \"tests/.*_conformance\\.h\"")
    foreach(include IN LISTS conformance)
      string(REGEX REPLACE "^#include \"(.*)\"$" "${PROJECT_SOURCE_DIR}/\\1" header ${include})
      file(STRINGS ${header} more REGEX "^TEST(_F|_P)?\\(")
      list(APPEND tests ${more})
    endforeach()
    list(TRANSFORM tests REPLACE "^[A-Z_]+\\(([A-Za-z0-9]+).*$" "\\1.*:*/\\1.*")
    list(APPEND patterns ${tests})
  endforeach()
  list(REMOVE_DUPLICATES patterns)
  set(${result} "${patterns}" PARENT_SCOPE)
endfunction()

# Three tests run at a time, with two OpenMP threads each on two cores: waiting threads give way soon, as those of the
# program do (tools/short_waits.h). The label names the program, so that a preset can select the tests of some programs.
# Called by millrace_test() alone, whose properties it takes.
function(millrace_add_suites program name label)
  list(JOIN ARGN ":" filter)
  add_test(NAME ${name} COMMAND ${program} --gtest_filter=${filter} WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
  set_tests_properties(${name} PROPERTIES TIMEOUT 900 LABELS ${label} COST 100 ENVIRONMENT "GOMP_SPINCOUNT=1000"
    ${TEST_PROPERTIES})
endfunction()

# millrace_test(NAME [GROUPS] [BY_FILE] SOURCES ... LINK ... TOGETHER ... LONG ... ALONE ... PROPERTIES ...): one test
# program per room, its cases known to CTest; with GROUPS its sources are compiled as millrace_group does. Most cases cost
# less than the process that they run in, so that some share one: the suites of the files in TOGETHER, which share what is
# made once, are one test of CTest's, NAME.together; with BY_FILE those of each other file are NAME.FILE, except the files
# in ALONE, whose cases look at their own process or take long. The suites in LONG are NAME.long, of the long tests.
# PROPERTIES are those of all of them.
function(millrace_test name)
  cmake_parse_arguments(TEST "GROUPS;BY_FILE" "" "SOURCES;LINK;TOGETHER;LONG;ALONE;PROPERTIES" ${ARGN})
  add_executable(${name} ${TEST_SOURCES})
  target_link_libraries(${name} PRIVATE ${TEST_LINK} millrace_test_support
    GTest::gmock GTest::gtest_main)
  millrace_warnings(${name})
  target_compile_options(${name} PRIVATE ${millrace_test_options})
  if(MILLRACE_PRECOMPILE)
    target_precompile_headers(${name} REUSE_FROM millrace_test_headers)
    if(TEST_GROUPS)
      millrace_group(${name})
    endif()
  endif()
  set(selected ${TEST_LONG})
  if(TEST_LONG)
    millrace_add_suites(${name} ${name}.long long ${TEST_LONG})
  endif()
  if(TEST_TOGETHER)
    millrace_suites(suites ${TEST_TOGETHER})
    millrace_add_suites(${name} ${name}.together ${name} ${suites})
    list(APPEND selected ${suites})
  endif()
  if(TEST_BY_FILE)
    foreach(source IN LISTS TEST_SOURCES)
      if(source IN_LIST TEST_TOGETHER OR source IN_LIST TEST_ALONE)
        continue()
      endif()
      millrace_suites(suites ${source})
      list(REMOVE_ITEM suites "" ${selected})
      if(suites)
        cmake_path(GET source STEM file)
        string(REGEX REPLACE "_test$" "" file ${file})
        millrace_add_suites(${name} ${name}.${file} ${name} ${suites})
        list(APPEND selected ${suites})
      endif()
    endforeach()
  endif()
  set(others "")
  if(selected)
    list(JOIN selected ":" selected)
    set(others TEST_FILTER "-${selected}")
  endif()
  gtest_discover_tests(${name} DISCOVERY_TIMEOUT 60 NO_PRETTY_VALUES ${others} PROPERTIES TIMEOUT 300
    LABELS ${name} ENVIRONMENT "GOMP_SPINCOUNT=1000" ${TEST_PROPERTIES} WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
endfunction()
