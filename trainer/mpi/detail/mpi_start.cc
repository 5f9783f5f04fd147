#include "trainer/mpi/detail/mpi_start.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <sstream>
#include <thread>
#include <utility>

#include "io/base/error.h"
#include "trainer/mpi/detail/unanswered.h"

namespace millrace::trainer::detail {
namespace {

constexpr int kHello = 1;  ///< a tag
constexpr std::chrono::milliseconds kLook{1};

/// "node1 10.0.0.1 192.168.0.1".
std::string own_hello() {
  std::array<char, MPI_MAX_PROCESSOR_NAME + 1> name{};
  int size = 0;
  MPI_Get_processor_name(name.data(), &size);
  std::string text = name.data();
  for (const OwnAddress& one : own_addresses()) text += " " + one.address;
  return text;
}

std::string networks_text(const std::vector<OwnAddress>& own) {
  std::vector<std::string> texts;
  for (const OwnAddress& one : own)
    texts.push_back(fmt::format("{} ({} {})", one.network, one.interface, one.address));
  return fmt::format("{}", fmt::join(texts, ", "));
}

}  // namespace

void check_mpi(int code, const char* what) {
  if (code == MPI_SUCCESS) return;
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int size = 0;
  MPI_Error_string(code, text.data(), &size);
  throw Error(ErrorCode::kIo, fmt::format("MPI: {}: {}", what, text.data()));
}

MpiStart::MpiStart(const MpiOptions& options)
    : watch_({.name = options.name,
              .limit = options.start_timeout,
              .log = options.log,
              .details = [this] { return details(); }}) {
  watch_.at("MPI_Init has not connected all processes: one is stopped, or cannot be reached");
}

void MpiStart::connect() {
  int provided = 0;
  check_mpi(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided), "initialisation");
  require(provided >= MPI_THREAD_FUNNELED, "MPI gives no process more than one thread");
  MPI_Comm_rank(MPI_COMM_WORLD, &process_);
  MPI_Comm_size(MPI_COMM_WORLD, &processes_);
  greet();
}

// Process 0 hears all before it answers: whoever is missing is named.
void MpiStart::greet() {
  std::vector<std::string> hellos(static_cast<std::size_t>(processes_));
  hellos[static_cast<std::size_t>(process_)] = own_hello();
  std::string all;
  if (process_ == 0) {
    gather_hellos(hellos);
    all = fmt::format("{}", fmt::join(hellos, "\n"));
    for (int to = 1; to < processes_; ++to) send(to, all);
  } else {
    watch_.at("process 0 has not answered");
    send(0, hellos[static_cast<std::size_t>(process_)]);
    all = receive(0);
  }
  hellos.clear();
  std::istringstream lines(all);
  for (std::string line; std::getline(lines, line);) hellos.push_back(line);
  take(hellos);
}

void MpiStart::gather_hellos(std::vector<std::string>& hellos) {
  for (int from = 1; from < processes_; ++from) {
    watch_.at(fmt::format("process {} has not answered", from));
    hellos[static_cast<std::size_t>(from)] = receive(from);
  }
}

void MpiStart::send(int to, std::string& text) {
  MPI_Request request = MPI_REQUEST_NULL;
  check_mpi(MPI_Isend(text.data(), static_cast<int>(text.size()), MPI_CHAR, to, kHello,
                      MPI_COMM_WORLD, &request),
            "sending");
  for (int is_done = 0; is_done == 0;) {
    check_mpi(MPI_Test(&request, &is_done, MPI_STATUS_IGNORE), "sending");
    if (is_done == 0) std::this_thread::sleep_for(kLook);
  }
}

std::string MpiStart::receive(int from) {
  int is_there = 0;
  MPI_Status status{};
  for (;;) {
    check_mpi(MPI_Iprobe(from, kHello, MPI_COMM_WORLD, &is_there, &status), "receiving");
    if (is_there != 0) break;
    std::this_thread::sleep_for(kLook);
  }
  int bytes = 0;
  MPI_Get_count(&status, MPI_CHAR, &bytes);
  std::string text(static_cast<std::size_t>(bytes), '\0');
  check_mpi(MPI_Recv(text.data(), bytes, MPI_CHAR, from, kHello, MPI_COMM_WORLD, MPI_STATUS_IGNORE),
            "receiving");
  return text;
}

void MpiStart::take(const std::vector<std::string>& hellos) {
  const std::lock_guard lock(mutex_);
  for (const std::string& hello : hellos) {
    std::istringstream words(hello);
    std::string host;
    words >> host;
    hosts_.push_back(host);
    for (std::string address; words >> address;) host_at_.emplace(address, host);
  }
}

// What a process asks of all at once passes between any two of them.
void MpiStart::make_communicators(MPI_Comm& data, MPI_Comm& control) {
  watch_.at("the processes have answered process 0, but not each other");
  check_mpi(MPI_Comm_dup(MPI_COMM_WORLD, &data), "a communicator");
  check_mpi(MPI_Comm_dup(MPI_COMM_WORLD, &control), "a communicator");
  // Calls that take requests, not a communicator, fail by the world's handler in MPICH.
  for (const MPI_Comm one : {MPI_COMM_WORLD, MPI_COMM_SELF, data, control})
    MPI_Comm_set_errhandler(one, MPI_ERRORS_RETURN);
}

void MpiStart::count_node(int& process, int& processes) {
  MPI_Comm node = MPI_COMM_NULL;
  check_mpi(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node),
            "nodes");
  MPI_Comm_rank(node, &process);
  MPI_Comm_size(node, &processes);
  MPI_Comm_free(&node);
}

std::string MpiStart::details() {
  std::vector<std::string> texts;
  const std::lock_guard lock(mutex_);
  for (const std::string& endpoint : unanswered()) {
    const auto host = host_at_.find(endpoint.substr(0, endpoint.find(':')));
    texts.push_back("no answer from " + endpoint +
                    (host == host_at_.end() ? "" : " of " + host->second));
  }
  const std::vector<OwnAddress> own = own_addresses();
  if (!own.empty()) texts.push_back("this host is in " + networks_text(own));
  if (own.size() > 1)
    texts.push_back(
        "name the network that joins the hosts: mpirun --mca btl_tcp_if_include NETWORK");
  return fmt::format("{}", fmt::join(texts, "; "));
}

}  // namespace millrace::trainer::detail
