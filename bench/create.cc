// create --from-folder, next to the bare cost of the same work: reading the files, and writing the
// tar's bytes to files that are synced and renamed.
//
// Both run alternately, several times, over a folder in the page cache; the figures are medians of
// processor time and of wall time. The program is started as a user would start it. Run:
// create_bench [--mib N]
#include <fcntl.h>
#include <fmt/core.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "io/base/error.h"
#include "io/base/rng.h"
#include "io/byte_sink.h"

namespace {

namespace fs = std::filesystem;
using namespace millrace;

constexpr std::uint64_t kShardBytes = std::uint64_t{64} << 20;

struct Cost {
  double cpu = 0;   ///< seconds, user and system
  double wall = 0;  ///< seconds
};

/// Files of random bytes in a temporary folder that is deleted on destruction.
struct FileSet {
  fs::path folder;
  std::vector<std::string> files;
  std::uint64_t bytes = 0;

  FileSet(std::size_t mean_bytes, std::uint64_t total_bytes) {
    std::string name = (fs::temp_directory_path() / "millrace-bench-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) throw Error(ErrorCode::kIo, "no temporary folder");
    folder = name;
    fs::create_directories(folder / "in");
    std::vector<std::byte> data(mean_bytes * 2);
    KeyedRng rng({.seed = 1});
    for (std::byte& byte : data) byte = static_cast<std::byte>(rng());
    while (bytes < total_bytes)
      add(std::span(data).first(mean_bytes / 2 + files.size() * 7919 % mean_bytes));
  }
  ~FileSet() { fs::remove_all(folder); }
  FileSet(const FileSet&) = delete;
  FileSet& operator=(const FileSet&) = delete;

 private:
  void add(std::span<const std::byte> data) {
    files.push_back((folder / "in" / fmt::format("{:09}.jpg", files.size())).string());
    const int fd = ::open(files.back().c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (::write(fd, data.data(), data.size()) != static_cast<ssize_t>(data.size()))
      throw_errno("write", files.back(), errno);
    ::close(fd);
    bytes += data.size();
  }
};

double seconds(const timeval& time) {
  return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
}

double cpu_of(int who) {
  rusage usage{};
  ::getrusage(who, &usage);
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

Cost timed(int who, const std::function<void()>& work) {
  const double cpu = cpu_of(who);
  const auto start = std::chrono::steady_clock::now();
  work();
  return {.cpu = cpu_of(who) - cpu,
          .wall = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count()};
}

void run_create(const FileSet& set, const std::vector<std::string>& more) {
  std::vector<std::string> words = {
      MILLRACE_PROGRAM,  "create",    set.folder / "out/s-%06d.tar", "--from-folder",
      set.folder / "in", "--maxsize", std::to_string(kShardBytes)};
  words.insert(words.end(), more.begin(), more.end());
  std::vector<char*> argv;
  argv.reserve(words.size() + 1);
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  pid_t child = 0;
  int status = -1;
  if (::posix_spawn(&child, argv[0], &actions, nullptr, argv.data(), environ) != 0 ||
      ::waitpid(child, &status, 0) != child || status != 0)
    throw Error(ErrorCode::kIo, "create failed");
  ::posix_spawn_file_actions_destroy(&actions);
}

std::size_t read_file(const std::string& path, std::vector<std::byte>& into) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  std::size_t used = 0;
  for (ssize_t got = 1; got > 0; used += static_cast<std::size_t>(got)) {
    if (into.size() < used + 4096) into.resize(2 * into.size() + 4096);
    got = ::read(fd, into.data() + used, into.size() - used);
    if (got < 0) throw_errno("read", path, errno);
  }
  ::close(fd);
  return used;
}

/// A header's worth of zeros and the padded data, in writes of 1 MiB.
void run_bare(const FileSet& set) {
  fs::create_directories(set.folder / "out");
  std::vector<std::byte> file;
  std::vector<std::byte> buffer;
  std::unique_ptr<io::ByteSink> sink;
  int shards = 0;
  for (const std::string& path : set.files) {
    if (!sink) sink = io::open_file_sink(set.folder / "out" / fmt::format("{}.tar", shards++));
    const std::size_t size = read_file(path, file);
    buffer.resize(buffer.size() + 512);
    buffer.insert(buffer.end(), file.begin(), file.begin() + static_cast<std::ptrdiff_t>(size));
    buffer.resize((buffer.size() + 511) / 512 * 512);
    if (buffer.size() < (1U << 20)) continue;
    sink->write(buffer);
    buffer.clear();
    if (sink->position() < kShardBytes) continue;
    sink->finish();
    sink.reset();
  }
  if (!sink) return;
  sink->write(buffer);
  sink->finish();
}

Cost median(std::vector<Cost> costs) {
  Cost middle;
  const auto half = costs.begin() + static_cast<std::ptrdiff_t>(costs.size() / 2);
  const auto by = [&](double Cost::*part) {
    std::nth_element(costs.begin(), half, costs.end(),
                     [&](const Cost& a, const Cost& b) { return a.*part < b.*part; });
    return (*half).*part;
  };
  middle.cpu = by(&Cost::cpu);
  middle.wall = by(&Cost::wall);
  return middle;
}

void print(const char* what, const FileSet& set, const Cost& cost, const Cost& bare) {
  fmt::print(
      "  {:<30} {:>9.0f} samples/s, {:>6.0f} MB/s of processor time ({:.2f} of bare); "
      "{:>9.0f} samples/s by the clock ({:.2f})\n",
      what, static_cast<double>(set.files.size()) / cost.cpu,
      static_cast<double>(set.bytes) / cost.cpu / 1e6, bare.cpu / cost.cpu,
      static_cast<double>(set.files.size()) / cost.wall, bare.wall / cost.wall);
}

void compare(std::size_t mean_bytes, std::uint64_t total_bytes) {
  constexpr int kRuns = 5;
  const FileSet set(mean_bytes, total_bytes);
  fmt::print("{} files of about {} bytes, {:.0f} MB, in the page cache:\n", set.files.size(),
             mean_bytes, static_cast<double>(set.bytes) / 1e6);
  std::vector<Cost> bare, plain, indexed, threads;
  const auto anew = [&](int who, const std::function<void()>& work) {
    fs::remove_all(set.folder / "out");
    return timed(who, work);
  };
  for (int run = 0; run < kRuns; ++run) {
    bare.push_back(anew(RUSAGE_SELF, [&] { run_bare(set); }));
    plain.push_back(anew(RUSAGE_CHILDREN, [&] {
      run_create(set, {"--no-index", "--threads", "1"});
    }));
    indexed.push_back(anew(RUSAGE_CHILDREN, [&] { run_create(set, {"--threads", "1"}); }));
    threads.push_back(anew(RUSAGE_CHILDREN, [&] { run_create(set, {}); }));
  }
  print("bare", set, median(bare), median(bare));
  print("create, 1 thread, no index", set, median(plain), median(bare));
  print("create, 1 thread", set, median(indexed), median(bare));
  print("create, a thread per core", set, median(threads), median(bare));
}

}  // namespace

int main(int argc, char** argv) {
  const bool sized = argc == 3 && std::string(argv[1]) == "--mib";
  const std::uint64_t bytes = (sized ? std::strtoull(argv[2], nullptr, 10) : 256) << 20;
  compare(110'000, bytes);
  compare(3'000, bytes);
  return 0;
}
