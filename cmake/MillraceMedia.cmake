# What reads sounds, films and SentencePiece's models, each in a module of its own that is loaded when it is needed.
# Defines millrace_sound_libraries, millrace_film_libraries and millrace_piece_libraries, interface targets, where their
# libraries are found.
set(MILLRACE_AUDIO AUTO CACHE STRING "Sounds by libsndfile and libsamplerate: ON, OFF, or AUTO, where they are installed")
set(MILLRACE_VIDEO AUTO CACHE STRING "Films by FFmpeg's libraries: ON, OFF, or AUTO, where they are installed")
set(MILLRACE_SENTENCEPIECE AUTO CACHE STRING "SentencePiece's tokens: ON, OFF, or AUTO, where it is installed")

# millrace_find_media(OPTION TARGET PACKAGES MODULE...): TARGET links the modules that pkg-config knows.
function(millrace_find_media option target packages)
  if(NOT ${option})
    return()
  endif()
  find_package(PkgConfig QUIET)
  if(PkgConfig_FOUND)
    pkg_check_modules(${target} QUIET IMPORTED_TARGET ${ARGN})
  endif()
  if(TARGET PkgConfig::${target})
    add_library(${target} INTERFACE)
    target_link_libraries(${target} INTERFACE PkgConfig::${target})
  elseif(${option} STREQUAL ON)
    message(FATAL_ERROR "pkg-config does not find ${ARGN} (Debian and Ubuntu: ${packages}). "
      "-D${option}=OFF builds without them.")
  endif()
endfunction()

millrace_find_media(MILLRACE_AUDIO millrace_sound_libraries "libsndfile1-dev libsamplerate0-dev"
  "sndfile>=1.0.31" "samplerate>=0.2")
# FFmpeg 5.0 and newer.
millrace_find_media(MILLRACE_VIDEO millrace_film_libraries "libavformat-dev libavcodec-dev libswscale-dev"
  "libavformat>=59" "libavcodec>=59" "libswscale>=6" "libavutil>=57")
millrace_find_media(MILLRACE_SENTENCEPIECE millrace_piece_libraries "libsentencepiece-dev" "sentencepiece>=0.1.96")

# millrace_media_module(TARGET SOURCE LIBRARIES): beside the programs, and installed beside millrace's libraries,
# or into the Python package.
function(millrace_media_module target source libraries)
  add_library(${target} MODULE ${source})
  set_target_properties(${target} PROPERTIES CXX_VISIBILITY_PRESET hidden LIBRARY_OUTPUT_DIRECTORY ${CMAKE_RUNTIME_OUTPUT_DIRECTORY})
  target_link_libraries(${target} PRIVATE millrace::io ${libraries})
  target_link_options(${target} PRIVATE -Wl,--as-needed)
  millrace_warnings(${target})
  # Of the .deb it is a part of its own: the whole would depend on these libraries.
  install(TARGETS ${target} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT media)
endfunction()
