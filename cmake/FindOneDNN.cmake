# Finds oneDNN as OneDNN::dnnl. Debian's config file would also require OpenCL's headers, for a GPU
# engine that millrace never creates.
find_path(OneDNN_INCLUDE_DIR dnnl.hpp)
find_library(OneDNN_LIBRARY dnnl)
if(OneDNN_INCLUDE_DIR AND EXISTS ${OneDNN_INCLUDE_DIR}/oneapi/dnnl/dnnl_version.h)
  file(STRINGS ${OneDNN_INCLUDE_DIR}/oneapi/dnnl/dnnl_version.h parts
    REGEX "#define DNNL_VERSION_(MAJOR|MINOR|PATCH) ")
  list(TRANSFORM parts REPLACE "[^0-9]" "")
  list(JOIN parts "." OneDNN_VERSION)
endif()
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(OneDNN REQUIRED_VARS OneDNN_LIBRARY OneDNN_INCLUDE_DIR
  VERSION_VAR OneDNN_VERSION)
if(OneDNN_FOUND AND NOT TARGET OneDNN::dnnl)
  add_library(OneDNN::dnnl UNKNOWN IMPORTED)
  set_target_properties(OneDNN::dnnl PROPERTIES IMPORTED_LOCATION ${OneDNN_LIBRARY}
    INTERFACE_INCLUDE_DIRECTORIES ${OneDNN_INCLUDE_DIR})
endif()
