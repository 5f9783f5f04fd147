# Run by CTest: cmake -DBUILD=... -DPROJECT=... -DWORK=... -DCOMPILER=... -P install_and_build.cmake
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

# The headers' own folder is not in the include path: they may name each other by millrace/ alone.
file(GLOB_RECURSE headers ${WORK}/prefix/include/*.h)
list(LENGTH headers count)
if(count LESS 50)
  message(FATAL_ERROR "${count} headers were installed")
endif()
foreach(header IN LISTS headers)
  file(STRINGS ${header} includes REGEX "^[ \t]*#[ \t]*include \"")
  foreach(include IN LISTS includes)
    string(REGEX MATCH "\"(.*)\"" name ${include})
    if(NOT EXISTS ${WORK}/prefix/include/${CMAKE_MATCH_1})
      message(FATAL_ERROR "${header}: ${include}: no such header was installed")
    endif()
  endforeach()
endforeach()

if(NOT EXISTS ${WORK}/prefix/share/millrace/recipes/pe-resnet34.toml)
  message(FATAL_ERROR "the recipes were not installed")
endif()

foreach(said man/man1/millrace-train.1 bash-completion/completions/millrace zsh/site-functions/_millrace
        fish/vendor_completions.d/millrace.fish)
  if(NOT EXISTS ${WORK}/prefix/share/${said})
    message(FATAL_ERROR "share/${said} was not installed")
  endif()
endforeach()

find_program(PKG_CONFIG pkg-config)
if(PKG_CONFIG)
  file(GLOB_RECURSE pc ${WORK}/prefix/millrace.pc)
  get_filename_component(pc_dir "${pc}" DIRECTORY)
  must_run(${CMAKE_COMMAND} -E env PKG_CONFIG_PATH=${pc_dir} ${PKG_CONFIG} --cflags millrace)
  if(NOT output MATCHES "-I${WORK}/prefix/")
    message(FATAL_ERROR "millrace.pc names another prefix: ${output}")
  endif()
endif()

set(flags "")
if(SANITIZE)
  set(flags "-fsanitize=${SANITIZE}")
endif()
# The programs are large, of static libraries, and linked by the build's own linker in a fraction of the time.
must_run(${CMAKE_COMMAND} -G Ninja -S ${PROJECT} -B ${WORK}/build
  -DCMAKE_PREFIX_PATH=${WORK}/prefix -DCMAKE_CXX_COMPILER=${COMPILER} -DCMAKE_CXX_FLAGS=${flags}
  -DCMAKE_EXE_LINKER_FLAGS=${LINKER})
must_run(${CMAKE_COMMAND} --build ${WORK}/build)
file(GLOB programs RELATIVE ${PROJECT} ${PROJECT}/*.cc)  # each is a program
list(TRANSFORM programs REPLACE "\\.cc$" "")
file(GLOB_RECURSE mpi ${WORK}/prefix/*/libmillrace_mpi.*)
if(NOT mpi)
  list(REMOVE_ITEM programs mpi_run)
endif()
foreach(program IN LISTS programs)
  must_run(${WORK}/build/${program})
  message("${output}")
endforeach()
