// order_bench: samples a second of `millrace order`, from indexes alone.
//
//   build/release/bin/order_bench [SHARDS [SAMPLES]]
//
// Writes the indexes of so many shards (200) with so many samples each (10,000) of two members, and
// runs the program over them: the digest, the listing to a file and the difference of two set-ups.
// The figures are the best of five runs, whole processes: by the clock, and per second of processor
// time.
#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/support/temp_dir.h"
#include "wds/shard_index.h"

namespace {

using namespace millrace;

wds::ShardIndex make_index(std::size_t shard, std::size_t samples) {
  constexpr std::uint64_t kSampleBytes = 5120;
  wds::ShardIndex index{.sha256 = std::string(64, '0'), .samples = {}};
  for (std::size_t i = 0; i < samples; ++i, index.end += kSampleBytes)
    index.samples.push_back({.key = fmt::format("{:09}", shard * samples + i),
                             .offset = index.end,
                             .members = {{.suffix = "cls", .offset = index.end + 512, .size = 1},
                                         {.suffix = "jpg",
                                          .offset = index.end + 1536,
                                          .size = 3000 + i % 85,
                                          .crc32 = static_cast<std::uint32_t>(i * 7919)}}});
  index.bytes = index.end + 1024;
  return index;
}

double processor_seconds() {
  rusage usage{};
  ::getrusage(RUSAGE_CHILDREN, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

void measure(const testing::TempDir& folder, double samples, const std::string& options) {
  constexpr int kRuns = 5;
  const std::string command = fmt::format("{} order {} {} >{} 2>/dev/null", MILLRACE_PROGRAM,
                                          folder / "set", options, folder / "out.txt");
  double clock = 1e9;
  double processor = 1e9;
  for (int run = 0; run < kRuns; ++run) {
    const double before = processor_seconds();
    const auto start = std::chrono::steady_clock::now();
    if (std::system(command.c_str()) != 0) throw std::runtime_error("failed: " + command);
    clock = std::min(
        clock, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    processor = std::min(processor, processor_seconds() - before);
  }
  fmt::print("{:<56} {:>6.2f} M/s, {:.2f} M per second of processor time\n", options,
             1e-6 * samples / clock, 1e-6 * samples / processor);
}

}  // namespace

int main(int argc, char** argv) {
  const auto argument = [&](int place, int usual) {
    return static_cast<std::size_t>(argc > place ? std::max(1, std::atoi(argv[place])) : usual);
  };
  const std::size_t shards = argument(1, 200);
  const std::size_t samples = argument(2, 10'000);
  const testing::TempDir folder;
  for (std::size_t shard = 0; shard < shards; ++shard) {
    const std::string path = folder / fmt::format("set/t-{:06}.tar", shard);
    testing::write_file(path, "");
    wds::write_index(make_index(shard, samples), wds::index_url(path));
  }
  const auto all = static_cast<double>(shards * samples);
  for (const char* options :
       {"--digest --shuffle 0 --workers 1", "--digest --shuffle 0 --workers 4",
        "--digest --shuffle 10000 --workers 1", "--digest --shuffle 10000 --workers 4",
        "--shuffle 10000 --workers 4", "--shuffle 10000 --workers 4 --json"})
    measure(folder, all, options);
  measure(folder, 2 * all, "--diff 'shuffle=1000 workers=4' 'shuffle=1000 streams=4'");
  return 0;
}
