# Run at install: copies the public headers to include/millrace, with includes as users write them.
# In the tree they include "io/bytes.h"; installed, that would claim the name io/ in every include
# path, so there it is "millrace/io/bytes.h".
list(JOIN MILLRACE_ROOMS "|" names)
file(REMOVE_RECURSE ${MILLRACE_STAGING})
foreach(room IN LISTS MILLRACE_ROOMS)
  file(GLOB_RECURSE headers RELATIVE ${MILLRACE_SOURCE} ${MILLRACE_SOURCE}/${room}/*.h)
  list(FILTER headers EXCLUDE REGEX "/detail/")
  if(NOT names MATCHES "(^|[|])mpi([|]|$)")  # IN_LIST is a policy's, and an install script has none
    list(FILTER headers EXCLUDE REGEX "^trainer/mpi/")
  endif()
  foreach(header IN LISTS headers)
    file(READ ${MILLRACE_SOURCE}/${header} text)
    string(REGEX REPLACE "#include \"(${names})/" "#include \"millrace/\\1/" text "${text}")
    file(WRITE ${MILLRACE_STAGING}/millrace/${header} "${text}")
  endforeach()
endforeach()
file(INSTALL ${MILLRACE_STAGING}/millrace DESTINATION ${MILLRACE_INCLUDEDIR})
