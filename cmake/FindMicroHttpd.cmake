# Finds libmicrohttpd as MicroHttpd::microhttpd: it has a .pc file but no CMake config.
find_path(MicroHttpd_INCLUDE_DIR microhttpd.h)
find_library(MicroHttpd_LIBRARY microhttpd)
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(MicroHttpd REQUIRED_VARS MicroHttpd_LIBRARY MicroHttpd_INCLUDE_DIR)
if(MicroHttpd_FOUND AND NOT TARGET MicroHttpd::microhttpd)
  add_library(MicroHttpd::microhttpd UNKNOWN IMPORTED)
  set_target_properties(MicroHttpd::microhttpd PROPERTIES IMPORTED_LOCATION ${MicroHttpd_LIBRARY}
    INTERFACE_INCLUDE_DIRECTORIES ${MicroHttpd_INCLUDE_DIR})
endif()
