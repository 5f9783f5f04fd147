// How fast HTTP sources read from nginx on loopback, next to bare libcurl and a local file.
//
//   http_read [MEGABYTES] [ROUNDS]
//
// In each round all of them read the same object in turn, so that other load on the machine affects
// all alike. It prints medians over the rounds, and the ratio to libcurl's own rate, which is the
// limit: bare libcurl checks nothing and drops what it receives.
#include <curl/curl.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "bench/medians.h"
#include "io/opener.h"
#include "tests/support/nginx.h"
#include "tests/support/temp_dir.h"

namespace {

using millrace::bench::median;
using millrace::bench::median_ratio;
using millrace::io::UrlOpener;

constexpr std::size_t kRead = 1 << 20;

std::size_t drop(char*, std::size_t, std::size_t count, void* total) {
  *static_cast<std::size_t*>(total) += count;
  return count;
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

// Bytes per second of `readers` threads that each call `read` once.
double rate(int readers, const std::function<std::size_t(int)>& read, std::size_t expected) {
  const auto start = std::chrono::steady_clock::now();
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
  return static_cast<double>(expected) * readers / took.count();
}

struct Row {
  const char* name;
  std::function<std::size_t(int)> read;
  std::vector<double> rates = {};
};

void compare(int readers, int rounds, std::size_t bytes, std::vector<Row> rows) {
  for (int round = 0; round <= rounds; ++round) {
    for (Row& row : rows) {
      const double measured = rate(readers, row.read, bytes);
      if (round > 0) row.rates.push_back(measured);  // the first one warms up
    }
  }
  const std::vector<double>& limit = rows.front().rates;
  for (const Row& row : rows) {
    std::printf("%d reader(s)  %-30s %7.2f GB/s  ratio %.2f\n", readers, row.name,
                median(row.rates) / 1e9, median_ratio(row.rates, limit));
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (const auto reason = millrace::testing::Nginx::missing()) {
    std::fprintf(stderr, "%s\n", reason->c_str());
    return 1;
  }
  const std::size_t megabytes = argc > 1 ? std::strtoul(argv[1], nullptr, 10) : 256;
  const int rounds = argc > 2 ? std::atoi(argv[2]) : 9;
  const millrace::testing::TempDir dir;
  const std::size_t bytes = megabytes << 20;
  millrace::testing::write_file(dir / "a.tar", std::string(bytes, 'x'));
  const millrace::testing::Nginx nginx(dir.path(), {.http_lines = "keepalive_requests 100000;"});
  const std::string url = nginx.url("a.tar");

  const UrlOpener opener;
  for (const int readers : {1, 4}) {
    std::vector<CURL*> handles(static_cast<std::size_t>(readers));
    for (CURL*& handle : handles) handle = curl_easy_init();
    compare(readers, rounds, bytes,
            {{"libcurl alone",
              [&](int i) { return read_with_curl(handles[static_cast<std::size_t>(i)], url); }},
             {"UrlOpener, http", [&](int) { return read_with_opener(opener, url); }},
             {"UrlOpener, the file itself",
              [&](int) { return read_with_opener(opener, dir / "a.tar"); }}});
    for (CURL* handle : handles) curl_easy_cleanup(handle);
  }
}
