// How fast HTTP sources read from nginx on loopback, next to bare libcurl and a local file.
//
//   http_read [MEGABYTES] [ROUNDS]
//   http_read --far URL BYTES [CA_FILE]
//
// The second form reads four times BYTES from the other end of a long link (bench/far.sh), with one
// reader and with four, next to what the link carries: 16 connections of libcurl's at once.
//
// In each round all of them read the same object in turn, so that other load on the machine affects
// all alike. It prints medians over the rounds, and the ratios to libcurl's own rate, which is the
// limit, by the clock and by the processor time of this program, without the server's: bare libcurl
// checks nothing and drops what it receives, 16 KiB that never leave the nearest cache. The least
// that any reader does is to keep the bytes (libcurl into a buffer of 1 MiB); the tar's headers
// and payloads are what a reader of shards does beyond that.
#include <curl/curl.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "bench/clock_seconds.h"
#include "bench/medians.h"
#include "io/bytes.h"
#include "io/opener.h"
#include "tests/support/nginx.h"
#include "tests/support/temp_dir.h"
#include "wds/shard_writer.h"
#include "wds/tar_reader.h"

namespace {

using millrace::bench::median;
using millrace::bench::median_ratio;
using millrace::io::UrlOpener;

constexpr std::size_t kRead = 1 << 20;

std::size_t drop(char*, std::size_t, std::size_t count, void* total) {
  *static_cast<std::size_t*>(total) += count;
  return count;
}

// Where libcurl's bytes are kept, again and again from its beginning.
struct Kept {
  std::vector<char> buffer = std::vector<char>(kRead);
  std::size_t total = 0;
};

std::size_t keep(char* data, std::size_t, std::size_t count, void* self) {
  auto& kept = *static_cast<Kept*>(self);
  const std::size_t at = kept.total % kRead;
  const std::size_t first = std::min(count, kRead - at);
  std::memcpy(kept.buffer.data() + at, data, first);
  std::memcpy(kept.buffer.data(), data + first, count - first);
  kept.total += count;
  return count;
}

std::size_t keep_with_curl(CURL* curl, const std::string& url) {
  Kept kept;
  curl_easy_setopt(curl, CURLOPT_URL, url.c_str());
  curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, &keep);
  curl_easy_setopt(curl, CURLOPT_WRITEDATA, &kept);
  return curl_easy_perform(curl) == CURLE_OK ? kept.total : 0;
}

std::size_t read_with_curl(CURL* curl, const std::string& url) {
  std::size_t total = 0;
  curl_easy_setopt(curl, CURLOPT_URL, url.c_str());
  curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, &drop);
  curl_easy_setopt(curl, CURLOPT_WRITEDATA, &total);
  return curl_easy_perform(curl) == CURLE_OK ? total : 0;
}

std::size_t read_with_opener(const UrlOpener& opener, const std::string& url) {
  const auto source = opener.open(url);
  std::vector<std::byte> buffer(kRead);
  std::size_t total = 0;
  while (const std::size_t got = source->read(buffer)) total += got;
  return total;
}

std::size_t read_tar(const UrlOpener& opener, const std::string& url) {
  millrace::wds::TarReader tar(opener.open(url), {});
  for (millrace::wds::TarMember member; tar.next(member);) tar.read_payload();
  return tar.stored_bytes().value_or(0);
}

/// Bytes per second, by the clock and of this program's processor time.
struct Rate {
  double by_clock = 0;
  double by_cpu = 0;
};

// Of `readers` threads that each call `read` once.
Rate rate(int readers, const std::function<std::size_t(int)>& read, std::size_t expected) {
  const auto start = std::chrono::steady_clock::now();
  const double cpu = millrace::bench::clock_seconds(CLOCK_PROCESS_CPUTIME_ID);
  {
    std::vector<std::jthread> threads;
    threads.reserve(static_cast<std::size_t>(readers));
    for (int i = 0; i < readers; ++i) {
      threads.emplace_back([&, i] {
        if (read(i) == expected) return;
        std::fprintf(stderr, "a read came back short\n");
        std::exit(1);
      });
    }
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  const double all = static_cast<double>(expected) * readers;
  return {.by_clock = all / took.count(),
          .by_cpu = all / (millrace::bench::clock_seconds(CLOCK_PROCESS_CPUTIME_ID) - cpu)};
}

long peak_rss_mib() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss / 1024;
}

struct Row {
  const char* name;
  std::function<std::size_t(int)> read;
  std::vector<double> by_clock = {};
  std::vector<double> by_cpu = {};
};

void compare(int readers, int rounds, std::size_t bytes, std::vector<Row> rows) {
  for (int round = 0; round <= rounds; ++round) {
    for (Row& row : rows) {
      const Rate measured = rate(readers, row.read, bytes);
      if (round == 0) continue;  // it warms up
      row.by_clock.push_back(measured.by_clock);
      row.by_cpu.push_back(measured.by_cpu);
    }
  }
  const Row& limit = rows.front();
  for (const Row& row : rows) {
    std::printf(
        "%d reader(s)  %-28s %6.2f GB/s, ratio %.2f  %6.2f GB/s of processor time, ratio %.2f\n",
        readers, row.name, median(row.by_clock) / 1e9, median_ratio(row.by_clock, limit.by_clock),
        median(row.by_cpu) / 1e9, median_ratio(row.by_cpu, limit.by_cpu));
    std::fflush(stdout);
  }
}

// A shard of pictures' size.
void write_tar(const std::string& path, std::uint64_t bytes) {
  constexpr std::size_t kPicture = 110'000;
  millrace::wds::ShardWriter writer({.pattern = path, .index = false});
  const auto picture = millrace::io::Bytes::copy_of(std::string(kPicture, 'x'));
  for (std::uint64_t i = 0; i * kPicture < bytes; ++i)
    writer.write({.key = std::to_string(i), .fields = {{"jpg", picture}}});
  writer.finish();
}

// A reader with handles of its own for each object, so that none is connected yet.
std::size_t read_with_new_curl(const std::string& url, const std::string& ca_file) {
  CURL* curl = curl_easy_init();
  if (!ca_file.empty()) curl_easy_setopt(curl, CURLOPT_CAINFO, ca_file.c_str());
  const std::size_t got = read_with_curl(curl, url);
  curl_easy_cleanup(curl);
  return got;
}

// Each row begins without connections.
void read_from_afar(const std::string& url, std::size_t bytes, const std::string& ca_file) {
  constexpr int kObjects = 4;
  double limit = 0;
  const auto print = [&](int readers, const char* name, double measured) {
    std::printf("%2d reader(s)  %-14s %7.1f MB/s  %.2f of the link, peak RSS %ld MiB\n", readers,
                name, measured / 1e6, measured / limit, peak_rss_mib());
    std::fflush(stdout);
  };
  const auto with_curl = [&](int) { return read_with_new_curl(url, ca_file); };
  limit = rate(16, with_curl, bytes).by_clock;
  print(16, "libcurl alone", limit);
  for (const int readers : {1, 4}) {
    const auto objects = [&](const auto& read) {
      return [&, read](int) {
        std::size_t total = 0;
        for (int i = 0; i < kObjects / readers; ++i) total += read();
        return total;
      };
    };
    const std::size_t each = bytes * kObjects / static_cast<std::size_t>(readers);
    print(readers, "libcurl alone",
          rate(readers, objects([&] { return read_with_new_curl(url, ca_file); }), each).by_clock);
    const UrlOpener opener({.http = {.ca_file = ca_file}});
    print(readers, "UrlOpener",
          rate(readers, objects([&] { return read_with_opener(opener, url); }), each).by_clock);
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc >= 4 && std::string(argv[1]) == "--far") {
    read_from_afar(argv[2], std::strtoull(argv[3], nullptr, 10), argc > 4 ? argv[4] : "");
    return 0;
  }
  if (const auto reason = millrace::testing::Nginx::missing()) {
    std::fprintf(stderr, "%s\n", reason->c_str());
    return 1;
  }
  const std::size_t megabytes = argc > 1 ? std::strtoul(argv[1], nullptr, 10) : 256;
  const int rounds = argc > 2 ? std::atoi(argv[2]) : 9;
  const millrace::testing::TempDir dir;
  write_tar(dir / "a-%d.tar", std::uint64_t{megabytes} << 20);
  const std::string path = dir / "a-0.tar";
  const std::size_t bytes = std::filesystem::file_size(path);
  const millrace::testing::Nginx nginx(dir.path(), {.http_lines = "keepalive_requests 100000;"});
  const std::string url = nginx.url("a-0.tar");

  const UrlOpener opener;
  for (const int readers : {1, 4}) {
    std::vector<CURL*> handles(static_cast<std::size_t>(readers));
    for (CURL*& handle : handles) handle = curl_easy_init();
    const auto handle = [&](int i) { return handles[static_cast<std::size_t>(i)]; };
    compare(readers, rounds, bytes,
            {{"libcurl alone", [&](int i) { return read_with_curl(handle(i), url); }},
             {"libcurl, into a buffer", [&](int i) { return keep_with_curl(handle(i), url); }},
             {"UrlOpener, http", [&](int) { return read_with_opener(opener, url); }},
             {"the tar's headers and payloads", [&](int) { return read_tar(opener, url); }},
             {"UrlOpener, the file itself", [&](int) { return read_with_opener(opener, path); }}});
    for (CURL* each : handles) curl_easy_cleanup(each);
  }
}
