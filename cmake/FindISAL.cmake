# Finds ISA-L as ISAL::isal: it has a .pc file but no CMake config.
find_path(ISAL_INCLUDE_DIR isa-l/crc.h)
find_library(ISAL_LIBRARY isal)
if(ISAL_INCLUDE_DIR AND EXISTS ${ISAL_INCLUDE_DIR}/isa-l.h)
  file(STRINGS ${ISAL_INCLUDE_DIR}/isa-l.h parts
    REGEX "#define ISAL_(MAJOR|MINOR|PATCH)_VERSION ")
  list(TRANSFORM parts REPLACE "[^0-9]" "")
  list(JOIN parts "." ISAL_VERSION)
endif()
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(ISAL REQUIRED_VARS ISAL_LIBRARY ISAL_INCLUDE_DIR
  VERSION_VAR ISAL_VERSION)
if(ISAL_FOUND AND NOT TARGET ISAL::isal)
  add_library(ISAL::isal UNKNOWN IMPORTED)
  set_target_properties(ISAL::isal PROPERTIES IMPORTED_LOCATION ${ISAL_LIBRARY}
    INTERFACE_INCLUDE_DIRECTORIES ${ISAL_INCLUDE_DIR})
endif()
