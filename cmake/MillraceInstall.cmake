# What `cmake --install` installs: libraries, public headers (never detail/), the package config
# with its find_dependency list, and a .pc file.
include(CMakePackageConfigHelpers)

get_property(rooms GLOBAL PROPERTY MILLRACE_ROOMS)
set(config_dir ${CMAKE_INSTALL_LIBDIR}/cmake/millrace)
set(main_rooms ${rooms})
list(REMOVE_ITEM main_rooms millrace_mpi)
install(TARGETS ${main_rooms} EXPORT millrace-targets
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
  RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
if(TARGET millrace_mpi)
  install(TARGETS millrace_mpi EXPORT millrace-mpi-targets
    ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
    LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
  install(EXPORT millrace-mpi-targets NAMESPACE millrace:: DESTINATION ${config_dir})
endif()

list(TRANSFORM rooms REPLACE "^millrace_" "")
install(CODE "set(MILLRACE_ROOMS \"${rooms}\")
  set(MILLRACE_SOURCE \"${PROJECT_SOURCE_DIR}\")
  set(MILLRACE_STAGING \"${PROJECT_BINARY_DIR}/installed-headers\")
  set(MILLRACE_INCLUDEDIR \"\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_INCLUDEDIR}\")")
install(SCRIPT ${PROJECT_SOURCE_DIR}/cmake/install_headers.cmake)

install(EXPORT millrace-targets NAMESPACE millrace:: DESTINATION ${config_dir})
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/millrace-config.cmake.in
  ${PROJECT_BINARY_DIR}/millrace-config.cmake INSTALL_DESTINATION ${config_dir}
  PATH_VARS CMAKE_INSTALL_LIBDIR)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/millrace-config-version.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_SOURCE_DIR}/cmake/FindOneDNN.cmake
  ${PROJECT_SOURCE_DIR}/cmake/FindISAL.cmake
  ${PROJECT_SOURCE_DIR}/cmake/FindWebP.cmake
  ${PROJECT_SOURCE_DIR}/cmake/Findutf8proc.cmake
  ${PROJECT_BINARY_DIR}/millrace-config.cmake
  ${PROJECT_BINARY_DIR}/millrace-config-version.cmake DESTINATION ${config_dir})
file(RELATIVE_PATH MILLRACE_PREFIX_FROM_PC /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
configure_file(${PROJECT_SOURCE_DIR}/cmake/millrace.pc.in ${PROJECT_BINARY_DIR}/millrace.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/millrace.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})

# `cpack` in the build folder makes a .deb of this, with the packages that its libraries are in as what it
# depends on: for the Debian or Ubuntu that it was built on.
if(PROJECT_IS_TOP_LEVEL)
  set(CPACK_GENERATOR DEB)
  set(CPACK_PACKAGE_NAME millrace)
  set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
  set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "${PROJECT_DESCRIPTION}")
  set(CPACK_RESOURCE_FILE_LICENSE ${PROJECT_SOURCE_DIR}/LICENSE)
  set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
  set(CPACK_STRIP_FILES ON)
  set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
  set(CPACK_DEBIAN_PACKAGE_MAINTAINER "millrace's authors <millrace@localhost>")
  set(CPACK_DEBIAN_PACKAGE_SECTION science)
  set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
  # What programs need that link the libraries: these are static, and name theirs in their package config.
  set(CPACK_DEBIAN_PACKAGE_SUGGESTS "libeigen3-dev, libtbb-dev, libarchive-dev, libcurl4-openssl-dev")
  # Two packages: what reads sounds, films and SentencePiece's models needs many libraries, which apt installs unless told not to.
  # Without the module for Arrow: no package of Debian has Arrow's libraries.
  set(CPACK_DEB_COMPONENT_INSTALL ON)
  set(CPACK_COMPONENTS_ALL Unspecified)
  set(CPACK_DEBIAN_UNSPECIFIED_PACKAGE_NAME millrace)
  if(TARGET millrace_sound OR TARGET millrace_video OR TARGET millrace_pieces)
    list(APPEND CPACK_COMPONENTS_ALL media)
    set(CPACK_DEBIAN_UNSPECIFIED_PACKAGE_RECOMMENDS millrace-media)
    set(CPACK_DEBIAN_MEDIA_PACKAGE_NAME millrace-media)
    set(CPACK_DEBIAN_MEDIA_DESCRIPTION "Sounds, films and SentencePiece's tokens for millrace")
  endif()
  include(CPack)
endif()
