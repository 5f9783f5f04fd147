// pipeline_bench: the whole input pipeline next to its limits, alternating in one run.
//
//   build/release/bin/pipeline_bench [THREADS [ROUNDS]]
//   build/release/bin/pipeline_bench late
//   build/release/bin/pipeline_bench decoded [THREADS [ROUNDS]]
//
// cifar: 3 KB PPM + cls → crop with padding 4, flip, normalise, bf16, batches of 128. Next to it
// the same with the shards' indexes, also in processor time, the bare decode of the same bytes on
// as many threads (no tar, no batches), and a bare libarchive loop over the same shards on one
// thread. jpeg: 110 KB JPEGs → random-resized-crop 224, flip, normalise, bf16, batches of 64; next
// to it a bare libjpeg-turbo full decode on as many threads, and the bare libarchive loop. growth:
// time per sample of N and of 4 N samples in one epoch; the ratio must stay at 1. gaps: how long a
// consumer waits for the first batch, for an epoch's first one, and for one within an epoch. late:
// shards that open late, and a field that waits, without and with autotune. decoded: small sets
// with a cache of decoded pictures that holds them, next to the same without, and to the same
// pictures stored as PPM, which need no decoding.
#include "pipeline/pipeline.h"

#include <archive.h>
#include <archive_entry.h>
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "bench/bare_jpeg.h"
#include "bench/clock_seconds.h"
#include "bench/medians.h"
#include "decode/decoded_cache.h"
#include "decode/encode.h"
#include "decode/image_decoder.h"
#include "decode/transforms/normalize.h"
#include "decode/transforms/random_crop.h"
#include "decode/transforms/random_horizontal_flip.h"
#include "decode/transforms/random_resized_crop.h"
#include "io/opener.h"
#include "tests/decode/photo.h"
#include "tests/support/temp_dir.h"
#include "wds/shard_index.h"

namespace {

using namespace millrace;
using bench::BareJpeg;
using bench::median;
using bench::median_ratio;
using Clock = std::chrono::steady_clock;

constexpr auto kTurn = std::chrono::milliseconds(1500);

/// A set of shards, with some of its images also in memory.
struct Set {
  std::string name;
  std::vector<std::string> shards;
  std::vector<io::Bytes> images;
  pipeline::ImageField field;
  std::int64_t batch = 0;
};

void write_member(archive* tar, const std::string& name, std::string_view data) {
  std::unique_ptr<archive_entry, decltype(&archive_entry_free)> entry(archive_entry_new(),
                                                                      &archive_entry_free);
  archive_entry_set_pathname(entry.get(), name.c_str());
  archive_entry_set_size(entry.get(), static_cast<la_int64_t>(data.size()));
  archive_entry_set_filetype(entry.get(), AE_IFREG);
  archive_entry_set_perm(entry.get(), 0444);
  if (archive_write_header(tar, entry.get()) != ARCHIVE_OK ||
      archive_write_data(tar, data.data(), data.size()) < 0) {
    throw std::runtime_error(archive_error_string(tar));
  }
}

void write_shard(const std::string& path, const Set& set, const std::string& suffix,
                 std::size_t samples) {
  std::unique_ptr<archive, decltype(&archive_write_free)> tar(archive_write_new(),
                                                              &archive_write_free);
  archive_write_set_format_ustar(tar.get());
  if (archive_write_open_filename(tar.get(), path.c_str()) != ARCHIVE_OK) {
    throw std::runtime_error(archive_error_string(tar.get()));
  }
  for (std::size_t i = 0; i < samples; ++i) {
    const std::string key = fmt::format("{:06}", i);
    write_member(tar.get(), key + ".cls", std::to_string(i % 10));
    write_member(tar.get(), key + "." + suffix, set.images[i % set.images.size()].text());
  }
  archive_write_close(tar.get());
  wds::write_index(wds::build_index(io::UrlOpener(), path), wds::index_url(path));
}

Set make_set(const testing::TempDir& folder, const std::string& name, std::size_t shards,
             std::size_t samples) {
  const bool small = name == "cifar";
  Set set{.name = name, .shards = {}, .images = {}, .field = {}, .batch = small ? 128 : 64};
  for (std::uint64_t seed = 0; seed < 24; ++seed) {
    const decode::Image image =
        small ? testing::photo(32, 32, seed) : testing::photo(375, 500, seed);
    set.images.push_back(small ? decode::encode_pnm(image) : decode::encode_jpeg(image));
  }
  if (small) set.field.transforms = {decode::RandomCrop{{32, 32}, 4}};
  if (!small) set.field.transforms = {decode::RandomResizedCrop{.size = 224}};
  set.field.transforms.push_back(decode::RandomHorizontalFlip{});
  set.field.transforms.push_back(decode::Normalize::imagenet());
  set.field.dtype = decode::DType::kBFloat16;
  for (std::size_t i = 0; i < shards; ++i) {
    set.shards.push_back(folder / fmt::format("{}-{:03}.tar", name, i));
    write_shard(set.shards.back(), set, small ? "ppm" : "jpg", samples);
  }
  return set;
}

double per_second(std::uint64_t count, Clock::time_point start) {
  return static_cast<double>(count) / std::chrono::duration<double>(Clock::now() - start).count();
}

/// Samples per second of one thread that reads every payload byte into memory.
double bare_read(const Set& set) {
  const Clock::time_point start = Clock::now();
  std::uint64_t samples = 0;
  std::vector<char> payload;
  for (std::size_t i = 0; Clock::now() - start < kTurn; i = (i + 1) % set.shards.size()) {
    std::unique_ptr<archive, decltype(&archive_read_free)> tar(archive_read_new(),
                                                               &archive_read_free);
    archive_read_support_format_tar(tar.get());
    archive_read_open_filename(tar.get(), set.shards[i].c_str(), 1 << 20);
    std::uint64_t members = 0;
    for (archive_entry* entry = nullptr; archive_read_next_header(tar.get(), &entry) == ARCHIVE_OK;
         ++members) {
      payload.resize(static_cast<std::size_t>(archive_entry_size(entry)));
      archive_read_data(tar.get(), payload.data(), payload.size());
    }
    samples += members / 2;
  }
  return per_second(samples, start);
}

using Worker = std::function<void(std::size_t image)>;

/// Images per second of `threads` workers.
double bare_loop(int threads, std::size_t images, const std::function<Worker()>& make) {
  std::atomic<std::uint64_t> done{0};
  const Clock::time_point start = Clock::now();
  {
    std::vector<std::jthread> team;
    team.reserve(static_cast<std::size_t>(threads));
    for (int t = 0; t < threads; ++t) {
      team.emplace_back([&] {
        const Worker work = make();
        for (std::size_t i = 0; Clock::now() - start < kTurn; ++i, ++done) work(i % images);
      });
    }
  }
  return per_second(done, start);
}

Worker fused_decoder(const Set& set, const decode::ImageDecoder& decoder) {
  auto slots = std::make_shared<std::vector<std::byte>>(decoder.output().num_bytes() * 128);
  auto count = std::make_shared<std::uint64_t>(0);
  return [&set, &decoder, slots, count](std::size_t image) {
    const std::size_t bytes = decoder.output().num_bytes();
    const std::size_t slot = *count % 128;
    decoder.decode(set.images[image], {.index = (*count)++},
                   std::span(*slots).subspan(slot * bytes, bytes));
  };
}

enum class Indexes { kIgnored, kUsed };

pipeline::Pipeline build(const Set& set, int threads, const pipeline::EpochOptions& epochs,
                         Indexes indexes = Indexes::kIgnored) {
  return pipeline::Pipeline::Builder()
      .shards(set.shards)
      .indexed(indexes == Indexes::kUsed)
      .split({.workers = 4})
      .shuffle({.shards = true, .buffer_samples = set.name == "cifar" ? 1000 : 0, .seed = 1})
      .field(set.field)
      .field(pipeline::LabelField{.classes = 10})
      .batch({.size = set.batch})
      .epochs(epochs)
      .resources({.threads = threads, .io_threads = 2})
      .build();
}

struct PipelineRates {
  std::vector<double> images;  ///< per second
  std::vector<double> micros;  ///< of processor time per image, all threads
};

/// One round of the pipeline; returns its statistics as text.
std::string whole_pipeline(const Set& set, int threads, Indexes indexes, PipelineRates& rates) {
  pipeline::Pipeline pipeline = build(set, threads, {.count = 0}, indexes);
  pipeline::Batch batch;
  for (int i = 0; i < 8; ++i) pipeline.next(batch);
  const pipeline::Statistics before = pipeline.statistics();
  const Clock::time_point start = Clock::now();
  const double processor_start = bench::clock_seconds(CLOCK_PROCESS_CPUTIME_ID);
  std::uint64_t images = 0;
  while (Clock::now() - start < kTurn) {
    if (pipeline.next(batch)) images += static_cast<std::uint64_t>(batch.num_valid);
  }
  rates.images.push_back(per_second(images, start));
  rates.micros.push_back(1e6 * (bench::clock_seconds(CLOCK_PROCESS_CPUTIME_ID) - processor_start) /
                         static_cast<double>(images));
  return pipeline.statistics().since(before).to_text();
}

void print_pipeline(const char* what, const PipelineRates& rates) {
  fmt::print("  pipeline, {:<20} {:>11.0f}/s  {:.2f} us of processor time per image\n", what,
             median(rates.images), median(rates.micros));
}

void print_limit(const char* what, const std::vector<double>& rates, double pipeline) {
  if (rates.empty()) return;
  fmt::print("  {:<30} {:>11.0f}/s  ratio {:.2f}\n", what, median(rates), pipeline / median(rates));
}

void compare(const Set& set, int threads, int rounds) {
  const decode::ImageDecoder decoder(
      {.transforms = set.field.transforms, .dtype = set.field.dtype});
  PipelineRates plain, indexed;
  std::vector<double> decoded, read, jpeg;
  std::string report;
  for (int round = 0; round < rounds; ++round) {
    report = whole_pipeline(set, threads, Indexes::kIgnored, plain);
    whole_pipeline(set, threads, Indexes::kUsed, indexed);
    decoded.push_back(
        bare_loop(threads, set.images.size(), [&] { return fused_decoder(set, decoder); }));
    read.push_back(bare_read(set));
    if (set.name != "jpeg") continue;
    jpeg.push_back(bare_loop(threads, set.images.size(), [&set]() -> Worker {
      auto bare = std::make_shared<BareJpeg>();
      return [&set, bare](std::size_t image) { bare->decode(set.images[image]); };
    }));
  }
  fmt::print("{} on {} threads\n", set.name, threads);
  print_pipeline("no indexes", plain);
  print_pipeline("with indexes", indexed);
  fmt::print("  with to without: {:.3f} of the rate, {:.3f} of the processor time\n",
             median_ratio(indexed.images, plain.images),
             median_ratio(indexed.micros, plain.micros));
  const double pipeline = median(plain.images);
  print_limit("bare fused decode, same threads", decoded, pipeline);
  print_limit("bare libarchive, one thread", read, pipeline);
  print_limit("bare libjpeg-turbo full decode", jpeg, pipeline);
  fmt::print("{}\n", report);
}

double seconds_per_sample(const Set& set, int threads, std::int64_t samples) {
  pipeline::Pipeline pipeline = build(set, threads, {.count = 1, .samples = samples});
  const Clock::time_point start = Clock::now();
  for (pipeline::Batch batch; pipeline.next(batch);) {
  }
  return 1.0 / per_second(static_cast<std::uint64_t>(samples), start);
}

void growth(const Set& set, int threads, int rounds) {
  constexpr std::int64_t kSamples = 100'000;
  std::vector<double> few;
  std::vector<double> many;
  for (int round = 0; round < rounds; ++round) {
    few.push_back(seconds_per_sample(set, threads, kSamples));
    many.push_back(seconds_per_sample(set, threads, 4 * kSamples));
  }
  fmt::print("growth: {:.2f} us a sample for {} samples, {:.2f} us for {}: ratio {:.2f}\n",
             1e6 * median(few), kSamples, 1e6 * median(many), 4 * kSamples,
             median(many) / median(few));
}

struct Waits {
  std::vector<double> first = {};    ///< from the start to the first batch, seconds
  std::vector<double> within = {};   ///< a next() in an epoch's second half
  std::vector<double> between = {};  ///< from an epoch's last batch to the next one's first
};

/// A few epochs, with so much work for each batch.
void add_waits(const Set& set, int threads, std::chrono::duration<double> work, Waits& waits) {
  constexpr int kEpochs = 4;
  Clock::time_point begin = Clock::now();
  pipeline::Pipeline pipeline = build(set, threads, {.count = kEpochs});
  for (int epoch = 0; epoch < kEpochs; ++epoch) {
    std::vector<double> each;
    for (pipeline::Batch batch; pipeline.next(batch); begin = Clock::now()) {
      each.push_back(std::chrono::duration<double>(Clock::now() - begin).count());
      std::this_thread::sleep_for(work);
    }
    (epoch == 0 ? waits.first : waits.between).push_back(each.front());
    waits.within.insert(waits.within.end(),
                        each.begin() + static_cast<std::ptrdiff_t>(each.size() / 2), each.end());
  }
}

void print_waits(const char* consumer, const Waits& waits) {
  fmt::print(
      "  {:<28} {:>8.3f} ms to the first batch, {:.3f} ms to an epoch's first, {:.3f} ms to "
      "one within an epoch\n",
      consumer, 1e3 * median(waits.first), 1e3 * median(waits.between), 1e3 * median(waits.within));
}

/// What a consumer waits between two epochs, next to what it waits within one.
void gaps(const Set& set, int threads, int rounds) {
  Waits hungry, busy;
  for (int round = 0; round < rounds; ++round) add_waits(set, threads, {}, hungry);
  const std::chrono::duration<double> work(2 * median(hungry.within));
  for (int round = 0; round < rounds; ++round) add_waits(set, threads, work, busy);
  fmt::print("gaps of {}, {} batches per epoch\n", set.name,
             hungry.within.size() * 2 / (hungry.first.size() + hungry.between.size()));
  print_waits("a consumer that only takes", hungry);
  print_waits("one that takes half the rate", busy);
}

/// Opens shards 50 to 450 ms late, each always by the same time.
class LateOpener final : public io::Opener {
 public:
  std::unique_ptr<io::ByteSource> open(const std::string& url,
                                       const io::OpenOptions& options) const override {
    const std::size_t late = 50 + std::hash<std::string>{}(url) % 400;
    if (url.ends_with(".tar")) std::this_thread::sleep_for(std::chrono::milliseconds(late));
    return files_.open(url, options);
  }

 private:
  io::UrlOpener files_;
};

/// A field that waits for something other than the processor.
pipeline::FieldSpec waiting_field() {
  return pipeline::FunctionField{
      .name = "looked-up",
      .output = {decode::DType::kUInt8, {1}},
      .decode = [](const wds::Sample&, const decode::SampleId&, std::span<std::byte> slot) {
        slot[0] = std::byte{1};
        std::this_thread::sleep_for(std::chrono::microseconds(200));
      }};
}

/// Images a second after a few seconds, in which autotune comes to rest; what it chose.
double rate_when_settled(pipeline::PipelineOptions options, std::string& chosen) {
  constexpr auto kSettling = std::chrono::seconds(20);
  pipeline::Pipeline pipeline(std::move(options));
  pipeline::Batch batch;
  for (const auto start = Clock::now(); Clock::now() - start < kSettling;) pipeline.next(batch);
  const Clock::time_point start = Clock::now();
  std::uint64_t images = 0;
  while (Clock::now() - start < 2 * kTurn)
    if (pipeline.next(batch)) images += static_cast<std::uint64_t>(batch.num_valid);
  chosen = pipeline.statistics().tuning.text;
  return per_second(images, start);
}

void print_tuned(const std::string& what, pipeline::PipelineOptions options) {
  std::string chosen, none;
  const double tuned = rate_when_settled(options, chosen);
  options.resources.autotune.on = false;
  const double fixed = rate_when_settled(options, none);
  options.resources.prefetch = 64;
  const double prefetched = rate_when_settled(options, none);
  fmt::print(
      "  {:<28} {:>8.0f}/s without autotune, {:.0f}/s with 64 batches kept ready, {:.0f}/s with "
      "autotune: ratio {:.2f}\n    {}\n",
      what, fixed, prefetched, tuned, tuned / fixed, chosen);
}

/// What autotune brings where something is late, with numbers of threads that are left open. Of
/// labels alone, so that the processor has time.
void late(const testing::TempDir& folder) {
  Set set = make_set(folder, "cifar", 0, 0);
  for (std::size_t i = 0; i < 24; ++i) {
    set.shards.push_back(folder / fmt::format("late-{:03}.tar", i));
    write_shard(set.shards.back(), set, "ppm", 500 + 1300 * i % 3700);
  }
  const auto options = [&set](int streams) {
    return pipeline::PipelineOptions{.shards = set.shards,
                                     .split = {.workers = streams},
                                     .shuffle = {.shards = true, .seed = 1},
                                     .fields = {pipeline::LabelField{.classes = 10}},
                                     .batch = {.size = set.batch},
                                     .epochs = {.count = 0},
                                     .indexed = true};
  };
  fmt::print("late, labels of 24 uneven shards\n");
  pipeline::PipelineOptions stalled = options(4);
  stalled.opener = std::make_shared<const LateOpener>();
  print_tuned("shards open late, 4 streams", stalled);
  pipeline::PipelineOptions many = options(64);
  many.opener = stalled.opener;
  print_tuned("the same, 64 streams", many);
  pipeline::PipelineOptions waiting = options(4);
  waiting.fields.push_back(waiting_field());
  print_tuned("a field waits for 0.2 ms", waiting);
}

/// A set of pictures that are all different.
struct Different {
  const char* name;
  int height;
  int width;
  bool is_jpeg;
  std::size_t samples;
};

Set different_set(const testing::TempDir& folder, const Different& kind, bool stored) {
  Set set{.name = kind.name, .shards = {}, .images = {}, .field = {}, .batch = 64};
  for (std::uint64_t seed = 0; seed < kind.samples; ++seed) {
    const decode::Image image = testing::photo(kind.height, kind.width, seed);
    set.images.push_back(stored         ? decode::encode_pnm(image)
                         : kind.is_jpeg ? decode::encode_jpeg(image)
                                        : decode::encode_png(image));
  }
  const int side = std::min(224, kind.height);
  set.field.transforms = {decode::RandomResizedCrop{.size = side}, decode::RandomHorizontalFlip{},
                          decode::Normalize::imagenet()};
  set.field.dtype = decode::DType::kBFloat16;
  set.shards.push_back(folder / fmt::format("{}-{}.tar", kind.height, stored ? "ppm" : "files"));
  write_shard(set.shards.back(), set, stored ? "ppm" : kind.is_jpeg ? "jpg" : "png", kind.samples);
  return set;
}

/// Images per second after the first epoch.
double rate_of_later_epochs(const Set& set, int threads, std::size_t cache_bytes) {
  pipeline::ResourceOptions resources{.threads = threads, .io_threads = 2};
  if (cache_bytes > 0)
    resources.decoded =
        std::make_shared<decode::DecodedCache>(decode::DecodedCacheOptions{.bytes = cache_bytes});
  pipeline::Pipeline pipeline = pipeline::Pipeline::Builder()
                                    .shards(set.shards)
                                    .indexed(true)
                                    .split({.workers = 4})
                                    .shuffle({.shards = true, .seed = 1})
                                    .field(set.field)
                                    .field(pipeline::LabelField{.classes = 10})
                                    .batch({.size = set.batch})
                                    .epochs({.count = 0})
                                    .resources(resources)
                                    .build();
  pipeline::Batch batch;
  while (pipeline.next(batch)) continue;
  const Clock::time_point start = Clock::now();
  std::uint64_t images = 0;
  while (Clock::now() - start < kTurn)
    if (pipeline.next(batch)) images += static_cast<std::uint64_t>(batch.num_valid);
  return per_second(images, start);
}

void decoded(const testing::TempDir& folder, int threads, int rounds) {
  constexpr std::size_t kCache = std::size_t{1} << 30;
  fmt::print("decoded: random-resized-crop, flip, normalise, bf16, on {} threads\n", threads);
  for (const Different& kind :
       {Different{"32 px PNG", 32, 32, false, 4000}, Different{"160 px JPEG", 160, 213, true, 600},
        Different{"500 px JPEG", 375, 500, true, 200}}) {
    const Set files = different_set(folder, kind, false);
    const Set stored = different_set(folder, kind, true);
    std::vector<double> plain, cached, limit;
    for (int round = 0; round < rounds; ++round) {
      plain.push_back(rate_of_later_epochs(files, threads, 0));
      cached.push_back(rate_of_later_epochs(files, threads, kCache));
      limit.push_back(rate_of_later_epochs(stored, threads, 0));
    }
    fmt::print(
        "  {:<12} {:>7.0f}/s without, {:>7.0f}/s kept decoded ({:.2f} times), {:>7.0f}/s of "
        "PPM files: ratio {:.2f}\n",
        kind.name, median(plain), median(cached), median_ratio(cached, plain), median(limit),
        median_ratio(cached, limit));
  }
}

}  // namespace

int main(int argc, char** argv) {
  const bool only_late = argc > 1 && std::string_view(argv[1]) == "late";
  const bool only_decoded = argc > 1 && std::string_view(argv[1]) == "decoded";
  if (only_decoded) {
    --argc;
    ++argv;
  }
  const int threads = argc > 1 ? std::max(1, std::atoi(argv[1])) : 2;
  const int rounds = argc > 2 ? std::max(1, std::atoi(argv[2])) : 3;
  const testing::TempDir folder;
  if (only_late) {
    late(folder);
    return 0;
  }
  if (only_decoded) {
    decoded(folder, threads, rounds);
    return 0;
  }
  const Set cifar = make_set(folder, "cifar", 8, 5000);
  compare(cifar, threads, rounds);
  growth(cifar, threads, rounds);
  gaps(cifar, threads, rounds);
  const Set jpeg = make_set(folder, "jpeg", 4, 240);
  compare(jpeg, threads, rounds);
  gaps(jpeg, threads, rounds);
  return 0;
}
