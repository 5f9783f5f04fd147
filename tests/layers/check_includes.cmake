# Reads every #include of every room and fails on one that
#   - points up: a room above, or in the trainer a floor above (nn <- ops <- the loop);
#   - enters another folder's detail/, or in there a subject that its own does not stand on;
#   - shows a third party's header outside a .cc file or a detail/ header;
# and on a JSON document that is parsed past io/base/json.h, which bounds it.
# Run: cmake -DROOT=<source> -P check_includes.cmake
cmake_minimum_required(VERSION 3.25)

set(may_io io)
set(may_wds wds io)
set(may_decode decode io)
set(may_pipeline pipeline wds decode io)
set(may_device device pipeline wds decode io)
set(may_trainer trainer device pipeline wds decode io)
set(may_python python device pipeline wds decode io)
set(may_tools tools trainer device pipeline wds decode io)
set(may_bench bench tests tools trainer device pipeline wds decode io)
set(rooms io wds decode pipeline device trainer python tools bench)
set(installed io wds decode pipeline device trainer)

# The trainer's floors: what of the trainer a file below each folder may include. All stand on the
# parameter table and the arithmetic over flat buffers. The loop (all other files) knows the graph and
# its plans, never what they are made of. A loss may compare the ranks' samples, by the interface that
# stands on nothing.
set(floors nn ops models loss hlo pjrt mpi loop)
set(ground "parameters\\.h|detail/(bf16|flat_[a-z]+)\\.h")
set(may_floor_nn "nn/|${ground}")
set(may_floor_ops "ops/|nn/|${ground}")
set(may_floor_models "models/|nn/|${ground}")
set(may_floor_loss "loss/|nn/|collectives\\.h|hlo/[a-z_]+\\.h|${ground}")
set(may_floor_hlo "hlo/|nn/|[a-z_]+\\.h")
set(may_floor_pjrt "pjrt/|hlo/[a-z_]+\\.h|nn/|[a-z_]+\\.h")
set(may_floor_mpi "mpi/|transport\\.h")
set(may_floor_loop "detail/|nn/|loss/|rules/|schedules/|hlo/[a-z_]+\\.h|[a-z_]+\\.h")

# The subjects of the two large detail/ folders, and those that each stands on besides itself.
set(subjects_io files cache http stores)
set(subject_io_files "")
set(subject_io_cache files)
set(subject_io_http files)
set(subject_io_stores files http)
set(subjects_trainer collectives store step loop)
set(subject_trainer_collectives "")
set(subject_trainer_store "")
set(subject_trainer_step collectives)
set(subject_trainer_loop collectives store)

# Eigen is the one third-party library that public headers may show.
set(third_party "archive\\.h|archive_entry\\.h|curl/|jpeglib\\.h|png\\.h|tbb/|oneapi/|dnnl|mpi\\.h|pjrt_c_api|cuda|hwy/|nlohmann/|spdlog/|fmt/|CLI/|openssl/|zlib\\.h|omp\\.h")

set(faults 0)
function(fault file line message)
  message("${file}: ${line}: ${message}")
  math(EXPR faults "${faults} + 1")
  set(faults ${faults} PARENT_SCOPE)
endfunction()

function(floor_of file result)
  set(${result} loop PARENT_SCOPE)
  if(file MATCHES "^trainer/([a-z]+)/" AND CMAKE_MATCH_1 IN_LIST floors)
    set(${result} ${CMAKE_MATCH_1} PARENT_SCOPE)
  endif()
endfunction()

# `included` is a path of this tree, as "io/bytes.h".
function(check_own file line included)
  string(REGEX MATCH "^[a-z]+" room ${file})
  string(REGEX MATCH "^[a-z]+" target ${included})
  if(NOT target IN_LIST may_${room})
    fault(${file} ${line} "${room} may not include ${target}")
  elseif(room STREQUAL trainer AND target STREQUAL trainer)
    floor_of(${file} floor)
    if(NOT included MATCHES "^trainer/(${may_floor_${floor}})")
      fault(${file} ${line} "the trainer's ${floor} may not include it")
    endif()
  endif()
  if(file MATCHES "^${room}/detail/([a-z]+)/")
    set(subject ${CMAKE_MATCH_1})
    if(NOT subject IN_LIST subjects_${room})
      fault(${file} ${line} "a subject that check_includes.cmake does not know")
    elseif(included MATCHES "^${room}/detail/([a-z]+)/" AND NOT CMAKE_MATCH_1 STREQUAL subject
           AND NOT CMAKE_MATCH_1 IN_LIST subject_${room}_${subject})
      fault(${file} ${line} "${subject} does not stand on ${CMAKE_MATCH_1}")
    endif()
  endif()
  # detail/ is open to the folder that it lies in, and to what lies below that folder. Three benchmarks
  # are about such headers.
  if(included MATCHES "^(.*/)detail/")
    set(owner ${CMAKE_MATCH_1})
    if(NOT file MATCHES "^${owner}" AND NOT file MATCHES "^bench/(convolution_rate|flat_math|reduce)\\.cc$")
      fault(${file} ${line} "${owner}detail/ is closed to others")
    endif()
  endif()
  set(faults ${faults} PARENT_SCOPE)
endfunction()

function(check_file room file)
  file(STRINGS ${ROOT}/${file} lines REGEX "^[ \t]*#[ \t]*include")
  foreach(line IN LISTS lines)
    if(line MATCHES "\"([a-z]+/[^\"]*)\"")
      check_own(${file} ${line} ${CMAKE_MATCH_1})
    elseif(line MATCHES "<(${third_party})" AND room IN_LIST installed AND file MATCHES "\\.h$"
           AND NOT file MATCHES "/detail/")
      fault(${file} ${line} "third-party headers stay in .cc files or detail/")
    endif()
  endforeach()
  file(STRINGS ${ROOT}/${file} parsers REGEX "[Jj]son::(parse|accept)[(]")
  if(parsers AND NOT file STREQUAL io/base/json.cc)
    fault(${file} "${parsers}" "JSON is parsed by parse_json() of io/base/json.h")
  endif()
  set(faults ${faults} PARENT_SCOPE)
endfunction()

foreach(room IN LISTS rooms)
  file(GLOB_RECURSE files RELATIVE ${ROOT} ${ROOT}/${room}/*.h ${ROOT}/${room}/*.cc ${ROOT}/${room}/*.cu)
  foreach(file IN LISTS files)
    check_file(${room} ${file})
  endforeach()
endforeach()
if(faults GREATER 0)
  message(FATAL_ERROR "${faults} lines break the layers")
endif()
