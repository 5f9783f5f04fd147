# Every third-party package with its minimum version and pkg-config name, listed once: the build
# searches for this list, and the installed package config and .pc file require the same one. Users
# of our shared libraries need only what our public headers include.
set(millrace_public_dependencies Threads Eigen3)
set(millrace_dependencies
  "Threads"
  "LibArchive 3.6 PC libarchive"
  "CURL 7.80 PC libcurl"
  "ZLIB PC zlib"
  "ISAL 2.30 PC libisal"
  "pugixml 1.12 PC pugixml"
  "OpenSSL COMPONENTS Crypto PC libcrypto"
  "JPEG PC libjpeg"
  "PNG PC libpng"
  "TIFF 4.5 PC libtiff-4"
  "WebP PC libwebp"
  "utf8proc PC libutf8proc"
  "TBB 2021.8 PC tbb"
  "hwy PC libhwy"
  "Eigen3 3.4 PC eigen3"
  "OneDNN 2.6"
  "OpenMP COMPONENTS CXX"
  "fmt 9 PC fmt"
  "spdlog 1.10 PC spdlog"
  "nlohmann_json 3")

if(MILLRACE_BUILD_PYTHON STREQUAL ONLY)
  set(MILLRACE_MPI OFF)
  if(NOT MILLRACE_PYTHON_PROGRAM)
    list(FILTER millrace_dependencies EXCLUDE REGEX "^OpenMP ")
    set(MILLRACE_TRAINER OFF)
  endif()
endif()

# oneDNN 2.6 to 3: trainer/ops/primitives.cc knows what differs.
if(MILLRACE_TRAINER)
  find_package(OneDNN 2.6 QUIET)
  if(NOT OneDNN_FOUND)
    message(FATAL_ERROR "oneDNN 2.6 or newer was not found (Debian and Ubuntu: libdnnl-dev). "
      "-DMILLRACE_TRAINER=OFF builds without it: then train, eval and predict are missing.")
  endif()
  set(onednn_libs "-ldnnl ")
else()
  list(FILTER millrace_dependencies EXCLUDE REGEX "^OneDNN ")
  set(onednn_libs "")
endif()

set(pc_public "")
set(pc_private "")
foreach(dependency IN LISTS millrace_dependencies)
  string(REGEX MATCH "^([^ ]+) ?([0-9.]*)(.*)$" all "${dependency}")
  set(name ${CMAKE_MATCH_1})
  set(version ${CMAKE_MATCH_2})
  string(REGEX REPLACE " PC .*" "" dependency "${dependency}")
  separate_arguments(words UNIX_COMMAND "${dependency}")
  find_package(${words} REQUIRED)
  if(name IN_LIST millrace_public_dependencies OR NOT BUILD_SHARED_LIBS)
    string(APPEND MILLRACE_FIND_DEPENDENCIES "find_dependency(${dependency})\n")
    set(kind pc_public)
  else()
    set(kind pc_private)
  endif()
  if(all MATCHES " PC (.*)$")
    set(module ${CMAKE_MATCH_1})
    if(version)
      string(APPEND module " >= ${version}")
    endif()
    list(APPEND ${kind} "${module}")
  endif()
endforeach()

# Between releases oneTBB has changed the lifetime of what it keeps for each thread.
set(millrace_newest_tbb 2022.3)
if(TBB_VERSION VERSION_GREATER_EQUAL 2022.4)
  message(WARNING "oneTBB ${TBB_VERSION} is newer than ${millrace_newest_tbb}, the newest that "
    "millrace was tested with (from 2021.8 on): run pipeline_tests first")
endif()

list(JOIN pc_public ", " MILLRACE_PC_PUBLIC)
list(JOIN pc_private ", " MILLRACE_PC_PRIVATE)
# These have no .pc file.
if(BUILD_SHARED_LIBS)
  set(MILLRACE_PC_LIBS_PRIVATE "${onednn_libs}-lgomp")
else()
  set(MILLRACE_PC_LIBS "${onednn_libs}-lgomp")
endif()

# Runs of several processes: without MPI, everything except trainer/mpi is built. It is a separate
# component of the package: users who do not request it need no MPI. It is MPI for C++, though only
# C's functions are called: finding MPI for C requires that the user's project has enabled C.
set(MILLRACE_MPI AUTO CACHE STRING "Several processes by MPI: ON, OFF, or AUTO, where MPI is installed")
if(MILLRACE_MPI STREQUAL ON)
  find_package(MPI REQUIRED COMPONENTS CXX)
elseif(MILLRACE_MPI)
  find_package(MPI QUIET COMPONENTS CXX)
endif()
