// Shards to samples, without and with their indexes, next to a bare libarchive loop over the same
// shards, with a warm page cache.
//
// The bare loop requests each header and reads each member's data into one buffer: the minimum
// for any reader on libarchive. With indexes, each shard's is read and every sample checked. All
// run alternately, several times; the figures are medians of processor time. Run: read_bench
// [--mib N]
#include <archive.h>
#include <archive_entry.h>
#include <fmt/core.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "bench/clock_seconds.h"
#include "bench/medians.h"
#include "io/base/error.h"
#include "io/base/rng.h"
#include "io/bytes.h"
#include "io/opener.h"
#include "wds/shard_index.h"
#include "wds/shard_reader.h"
#include "wds/shard_writer.h"

namespace {

namespace fs = std::filesystem;
using namespace millrace;

struct Rate {
  std::uint64_t samples = 0;
  std::uint64_t bytes = 0;
  double seconds = 0;
};

/// Shards in a temporary folder that is deleted on destruction.
struct ShardSet {
  fs::path folder;
  std::vector<std::string> shards;

  ShardSet(std::size_t field_bytes, std::uint64_t total_bytes, std::uint64_t shard_bytes) {
    std::string name = (fs::temp_directory_path() / "millrace-bench-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) throw Error(ErrorCode::kIo, "no temporary folder");
    folder = name;
    std::string noise(field_bytes * 2, '\0');
    KeyedRng rng({.seed = 1});
    for (char& byte : noise) byte = static_cast<char>(rng());
    write(io::Bytes::copy_of(noise), total_bytes, shard_bytes);
  }
  ~ShardSet() { fs::remove_all(folder); }
  ShardSet(const ShardSet&) = delete;
  ShardSet& operator=(const ShardSet&) = delete;

 private:
  // Each sample is an image of half the data's size, plus or minus half of that, and a label.
  void write(const io::Bytes& data, std::uint64_t total_bytes, std::uint64_t shard_bytes) {
    wds::ShardWriter writer({.pattern = (folder / "%06d.tar").string(),
                             .maxcount = total_bytes,
                             .maxsize = shard_bytes});
    const io::Bytes label = io::Bytes::copy_of("7");
    const std::size_t mean = data.size() / 2;
    std::uint64_t written = 0;
    for (std::uint64_t key = 0; written < total_bytes; ++key) {
      const std::size_t size = mean / 2 + key * 7919 % mean;
      writer.write({.key = fmt::format("{:09}", key),
                    .fields = {{"cls", label}, {"jpg", data.slice(0, size)}}});
      written += size;
    }
    for (const wds::ShardSummary& shard : writer.finish()) shards.push_back(shard.url);
  }
};

enum class Indexes { kIgnored, kUsed };

Rate read_samples(const std::vector<std::string>& shards, Indexes indexes) {
  const io::UrlOpener opener;
  Rate rate;
  for (const std::string& shard : shards) {
    wds::ShardOptions options;
    if (indexes == Indexes::kUsed) options.index = wds::find_index(opener, shard);
    wds::ShardReader reader(opener, shard, options);
    for (wds::Sample sample; reader.next(sample);) {
      ++rate.samples;
      rate.bytes += sample.num_bytes();
    }
  }
  return rate;
}

void check(int result, archive* handle) {
  if (result < ARCHIVE_OK) throw Error(ErrorCode::kCorrupt, archive_error_string(handle));
}

Rate read_bare(const std::vector<std::string>& shards) {
  Rate rate;
  std::vector<char> buffer;
  for (const std::string& shard : shards) {
    archive* handle = archive_read_new();
    archive_read_support_format_tar(handle);
    check(archive_read_open_filename(handle, shard.c_str(), std::size_t{256} << 10), handle);
    archive_entry* entry = nullptr;
    while (archive_read_next_header(handle, &entry) == ARCHIVE_OK) {
      const auto size = static_cast<std::size_t>(archive_entry_size(entry));
      if (buffer.size() < size) buffer.resize(size);
      rate.bytes += static_cast<std::uint64_t>(archive_read_data(handle, buffer.data(), size));
      ++rate.samples;
    }
    archive_read_free(handle);
  }
  rate.samples /= 2;  // members to samples
  return rate;
}

// Processor time, user and system: neither loop waits, and other processes may use the cores.
Rate timed(const std::function<Rate()>& read) {
  const double start = bench::clock_seconds(CLOCK_THREAD_CPUTIME_ID);
  Rate rate = read();
  rate.seconds = bench::clock_seconds(CLOCK_THREAD_CPUTIME_ID) - start;
  return rate;
}

Rate median(std::vector<Rate> rates) {
  std::sort(rates.begin(), rates.end(),
            [](const Rate& a, const Rate& b) { return a.seconds < b.seconds; });
  return rates[rates.size() / 2];
}

double median_ratio(const std::vector<Rate>& over, const std::vector<Rate>& under) {
  const auto seconds = [](const std::vector<Rate>& rates) {
    std::vector<double> all;
    all.reserve(rates.size());
    for (const Rate& rate : rates) all.push_back(rate.seconds);
    return all;
  };
  return bench::median_ratio(seconds(over), seconds(under));
}

void print(const char* what, const Rate& rate) {
  fmt::print("  {:<22} {:>10.0f} samples/s  {:>8.0f} MB/s\n", what,
             static_cast<double>(rate.samples) / rate.seconds,
             static_cast<double>(rate.bytes) / rate.seconds / 1e6);
}

/// Prints the rates and returns our seconds per sample.
double compare(std::size_t field_bytes, std::uint64_t total_bytes, std::uint64_t shard_bytes) {
  constexpr int kRuns = 15;
  const ShardSet set(field_bytes, total_bytes, shard_bytes);
  std::vector<Rate> ours, checked, bare;
  read_bare(set.shards);  // warms the page cache
  for (int run = 0; run < kRuns; ++run) {
    ours.push_back(timed([&] { return read_samples(set.shards, Indexes::kIgnored); }));
    checked.push_back(timed([&] { return read_samples(set.shards, Indexes::kUsed); }));
    bare.push_back(timed([&] { return read_bare(set.shards); }));
  }
  const Rate us = median(ours);
  const Rate with_index = median(checked);
  const Rate limit = median(bare);
  fmt::print("{} samples of about {} bytes in {} shards\n", us.samples, field_bytes,
             set.shards.size());
  print("shards to samples", us);
  print("bare libarchive loop", limit);
  fmt::print("  ratio {:.3f} (to reach: 0.9)\n", median_ratio(bare, ours));
  print("with indexes", with_index);
  fmt::print("  ratio to without {:.3f} (to reach with 3,000 bytes: 0.8)\n",
             median_ratio(ours, checked));
  return us.seconds / static_cast<double>(us.samples);
}

}  // namespace

int main(int argc, char** argv) {
  const bool sized = argc == 3 && std::string(argv[1]) == "--mib";
  const std::uint64_t mib = sized ? std::strtoull(argv[2], nullptr, 10) : 512;
  const std::uint64_t bytes = mib << 20;
  const std::uint64_t shard = bytes / 8;
  compare(110'000, bytes, shard);
  const double small = compare(3'000, bytes / 4, shard / 4);
  compare(900, bytes / 8, shard / 8);
  fmt::print("cost of a sample as shards grow (3,000 bytes each):\n");
  const double large = compare(3'000, bytes, shard);
  fmt::print(
      "  4 times the samples per shard: {:.2f} times the time per sample (no growth: 1.00)\n",
      large / small);
  return 0;
}
