# Run by CTest: cmake -DBUILD=... -DSTRANGER=... -DWORK=... -DCOMPILER=... -P install_and_build.cmake
function(must_run)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT status EQUAL 0)
    message(FATAL_ERROR "${ARGN}\n${output}")
  endif()
  set(output "${output}" PARENT_SCOPE)
endfunction()

file(REMOVE_RECURSE ${WORK})
must_run(${CMAKE_COMMAND} --install ${BUILD} --prefix ${WORK}/prefix)

file(GLOB_RECURSE private ${WORK}/prefix/include/*/detail/*)
if(private)
  message(FATAL_ERROR "private headers were installed: ${private}")
endif()

if(NOT EXISTS ${WORK}/prefix/share/millrace/recipes/pe-resnet34.toml)
  message(FATAL_ERROR "the recipes were not installed")
endif()

set(flags "")
if(SANITIZE)
  set(flags "-fsanitize=${SANITIZE}")
endif()
must_run(${CMAKE_COMMAND} -G Ninja -S ${STRANGER} -B ${WORK}/build
  -DCMAKE_PREFIX_PATH=${WORK}/prefix -DCMAKE_CXX_COMPILER=${COMPILER} -DCMAKE_CXX_FLAGS=${flags})
must_run(${CMAKE_COMMAND} --build ${WORK}/build)
must_run(${WORK}/build/stranger)
message("${output}")
