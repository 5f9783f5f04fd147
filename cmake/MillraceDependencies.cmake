# Every third-party package with the oldest version that works, once: the list is looked for here, and
# the installed package's configuration looks for the same one (cmake/millrace-config.cmake.in).
set(millrace_dependencies
  "Threads"
  "LibArchive 3.6"
  "CURL 7.80"
  "ZLIB"
  "ISAL 2.30"
  "OpenSSL COMPONENTS Crypto"
  "JPEG"
  "PNG"
  "TBB 2021"
  "hwy"
  "Eigen3 3.4"
  "OneDNN 2.6"
  "OpenMP COMPONENTS CXX"
  "fmt"
  "spdlog"
  "nlohmann_json 3")

foreach(dependency IN LISTS millrace_dependencies)
  separate_arguments(words UNIX_COMMAND "${dependency}")
  find_package(${words} REQUIRED)
  string(APPEND MILLRACE_FIND_DEPENDENCIES "find_dependency(${dependency})\n")
endforeach()
