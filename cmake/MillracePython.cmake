# Finds the Python, and the nanobind in it, that the extension module is built with: those of the
# build backend in `pip install ./python`, else those of the tests' Python environment.
if(NOT DEFINED Python_EXECUTABLE)
  foreach(candidate IN ITEMS "$ENV{MILLRACE_ORACLE_PYTHON}" ${PROJECT_SOURCE_DIR}/build/oracle/bin/python)
    if(EXISTS "${candidate}" AND NOT DEFINED Python_EXECUTABLE)
      set(Python_EXECUTABLE ${candidate} CACHE FILEPATH "The Python that the extension is built with")
    endif()
  endforeach()
endif()
set(python_required "")
if(NOT MILLRACE_BUILD_PYTHON STREQUAL AUTO)
  set(python_required REQUIRED)
endif()
find_package(Python 3.10 QUIET ${python_required} COMPONENTS Interpreter Development.Module)
if(Python_FOUND)
  execute_process(COMMAND ${Python_EXECUTABLE} -c "import nanobind; print(nanobind.cmake_dir())"
    OUTPUT_VARIABLE nanobind_dir OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  find_package(nanobind 3 QUIET CONFIG ${python_required} HINTS ${nanobind_dir})
endif()
