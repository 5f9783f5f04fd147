// MpiStart: how the processes find each other. Each in turn is bounded by a StuckWatch, whose last
// line says which process has not answered, which addresses, and which networks this host has.
//
//   MpiStart start(options);
//   start.connect();
//   start.make_communicators(data, control);
//
// Threads: the one that calls MPI.
#pragma once

#include <mpi.h>

#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "trainer/mpi/detail/stuck_watch.h"
#include "trainer/mpi/mpi_processes.h"

namespace millrace::trainer::detail {

/// Throws: Io, with MPI's own text, unless `code` is MPI_SUCCESS.
void check_mpi(int code, const char* what);

class MpiStart {
 public:
  explicit MpiStart(const MpiOptions& options);

  /// Initialises MPI; every process says who it is to process 0, which tells all. Throws:
  /// Unsupported, Io.
  void connect();
  int process() const { return process_; }
  /// Where the processes are, in their order.
  const std::vector<std::string>& hosts() const { return hosts_; }

  void make_communicators(MPI_Comm& data, MPI_Comm& control);
  /// This process among those of its machine.
  void count_node(int& process, int& processes);

 private:
  void greet();
  void gather_hellos(std::vector<std::string>& hellos);
  void send(int to, std::string& text);
  std::string receive(int from);
  void take(const std::vector<std::string>& hellos);
  /// What has not answered, and what could be done about it.
  std::string details();

  int process_ = 0;
  int processes_ = 1;
  std::vector<std::string> hosts_;
  std::mutex mutex_;
  std::map<std::string, std::string> host_at_;  ///< by address
  StuckWatch watch_;                            ///< last: it calls details()
};

}  // namespace millrace::trainer::detail
