// The processes of a run as text: a line for each host, with its processes, ranks and threads.
//
// Threads: functions.
#pragma once

#include <string>
#include <vector>

namespace millrace::tools {

struct ProcessPlace {
  std::string host = {};
  int threads = 1;  ///< of each of its devices
};

/// `places`: one per process, each with `devices` devices. For 2 processes of 2 devices:
///
///   host   processes  ranks  threads per device
///   node1  0          0-1    8
///   node2  1          2-3    8
///
/// Of more than 64 hosts those are shown, and the others counted.
std::string process_table(const std::vector<ProcessPlace>& places, int devices);

}  // namespace millrace::tools
