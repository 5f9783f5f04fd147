// How long a pipeline takes from nothing to its first batch of distant shards with indexes, beside
// libcurl's first byte of one of them.
//
//   first_batch make FOLDER        writes the shards
//   first_batch URL [CA_FILE]      measures those under URL (bench/far.sh): read shard by shard,
//   and
//                                  as a permutation, which needs the indexes whole
//
// Each try has connections of its own. What is known of both: a connection is a round trip, and so
// is a request; with TLS a connection is one more.
#include <curl/curl.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "bench/clock_seconds.h"
#include "bench/medians.h"
#include "io/opener.h"
#include "pipeline/pipeline.h"
#include "wds/shard_writer.h"

namespace {

using namespace millrace;

constexpr int kShards = 16;
constexpr int kSamples = 100;
constexpr std::size_t kPictureBytes = 3000;

void make_shards(const std::string& folder) {
  wds::ShardWriter writer({.pattern = folder + "/first-%06d.tar", .maxcount = kSamples});
  const io::Bytes picture = io::Bytes::copy_of(std::string(kPictureBytes, 'x'));
  for (int i = 0; i < kShards * kSamples; ++i)
    writer.write({.key = fmt::format("{:06}", i),
                  .fields = {{.suffix = "bin", .data = picture},
                             {.suffix = "cls", .data = io::Bytes::copy_of(std::string("3"))}}});
  writer.finish();
}

std::size_t stop_at_first(char*, std::size_t, std::size_t, void*) { return 0; }

void first_byte(const std::string& url, const std::string& ca_file) {
  CURL* curl = curl_easy_init();
  if (!ca_file.empty()) curl_easy_setopt(curl, CURLOPT_CAINFO, ca_file.c_str());
  curl_easy_setopt(curl, CURLOPT_URL, url.c_str());
  curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, &stop_at_first);
  curl_easy_perform(curl);
  curl_easy_cleanup(curl);
}

void first_batch(const std::vector<std::string>& shards, wds::Order order,
                 const std::string& ca_file) {
  pipeline::Pipeline pipeline = pipeline::Pipeline::Builder()
                                    .shards(shards)
                                    .opener(std::make_shared<io::UrlOpener>(
                                        io::UrlOpenerOptions{.http = {.ca_file = ca_file}}))
                                    .indexed()
                                    .shuffle({.order = order})
                                    .split({.workers = 4})
                                    .field(pipeline::LabelField{.classes = 10})
                                    .batch({.size = 8})
                                    .build();
  pipeline::Batch batch;
  if (!pipeline.next(batch)) throw Error(ErrorCode::kNotFound, "no batch");
}

template <typename Work>
double milliseconds(const Work& work) {
  const double start = bench::clock_seconds(CLOCK_MONOTONIC);
  work();
  return 1e3 * (bench::clock_seconds(CLOCK_MONOTONIC) - start);
}

void measure(const std::string& url, const std::string& ca_file) {
  constexpr int kTries = 7;
  std::vector<std::string> shards;
  for (int i = 0; i < kShards; ++i) shards.push_back(fmt::format("{}/first-{:06}.tar", url, i));
  std::vector<double> bytes, batches, permuted;
  for (int i = 0; i < kTries; ++i) {
    bytes.push_back(milliseconds([&] { first_byte(shards.front(), ca_file); }));
    batches.push_back(milliseconds([&] { first_batch(shards, wds::Order::kMillrace, ca_file); }));
    permuted.push_back(
        milliseconds([&] { first_batch(shards, wds::Order::kPermutation, ca_file); }));
  }
  fmt::print(
      "libcurl's first byte {:.0f} ms, the first batch of {} shards {:.0f} ms, of a "
      "permutation of their samples {:.0f} ms\n",
      bench::median(bytes), kShards, bench::median(batches), bench::median(permuted));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fputs("first_batch make FOLDER | URL [CA_FILE]\n", stderr);
    return 2;
  }
  if (argc > 2 && std::string_view(argv[1]) == "make") {
    make_shards(argv[2]);
    return 0;
  }
  measure(argv[1], argc > 2 ? argv[2] : "");
  return 0;
}
