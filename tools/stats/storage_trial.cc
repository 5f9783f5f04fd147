#include "tools/stats/storage_trial.h"

#include <fmt/format.h>
#include <tbb/parallel_for.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <numeric>
#include <span>
#include <thread>
#include <utility>

#include "decode/image_decoder.h"
#include "decode/recode.h"
#include "decode/transforms/normalize.h"
#include "decode/transforms/random_horizontal_flip.h"
#include "decode/transforms/random_resized_crop.h"
#include "io/base/error.h"
#include "io/base/rng.h"
#include "io/base/text.h"
#include "tools/picture_ways.h"
#include "tools/task_arena.h"

namespace millrace::tools {
namespace {

using SteadyClock = std::chrono::steady_clock;
using Pictures = std::vector<io::Bytes>;

constexpr Purpose kTried = purpose_of("storage trial");
constexpr int kRounds = 3;

/// A way to store pictures, by the options that a user would give.
struct Way {
  std::string options = {};
  std::unique_ptr<JpegWay> jpeg = nullptr;
  std::unique_ptr<RawWay> raw = nullptr;
};

std::vector<Way> all_ways(int size) {
  const int shorter = size * 8 / 7;
  const ways::Resize resize{.shrink = {.shorter = shorter}};
  const ways::Resize with_restarts{.shrink = {.shorter = shorter}, .restarts = true};
  const std::string small = fmt::format("--jpeg 'resize({})'", shorter);
  std::vector<Way> list;
  list.push_back({});
  list.push_back({.options = "--jpeg restarts", .jpeg = ways::Restarts().make()});
  list.push_back({.options = small, .jpeg = resize.make()});
  list.push_back({.options = fmt::format("--jpeg 'resize({}, restarts)'", shorter),
                  .jpeg = with_restarts.make()});
  list.push_back(
      {.options = small + " --image raw", .jpeg = resize.make(), .raw = ways::Raw().make()});
  list.push_back({.options = "--image raw", .raw = ways::Raw().make()});
  return list;
}

/// What cannot be stored so stays as it is, as create and reshard leave it.
template <typename Work>
void unless_impossible(const Work& work) {
  try {
    work();
  } catch (const Error&) {
  }
}

io::Bytes stored_by(const Way& way, io::Bytes picture) {
  unless_impossible([&] {
    if (!way.jpeg) return;
    if (const auto file = way.jpeg->apply(picture)) picture = *file;
  });
  unless_impossible([&] {
    if (way.raw) picture = decode::store_raw(picture).data;
  });
  return picture;
}

Pictures stored_by(const Way& way, const Pictures& pictures, TaskArena& threads) {
  Pictures stored(pictures.size());
  threads.execute([&] {
    tbb::parallel_for(std::size_t{0}, pictures.size(),
                      [&](std::size_t i) { stored[i] = stored_by(way, pictures[i]); });
  });
  return stored;
}

double num_bytes(const Pictures& pictures) {
  return std::accumulate(
      pictures.begin(), pictures.end(), 0.0,
      [](double sum, const io::Bytes& one) { return sum + static_cast<double>(one.size()); });
}

/// Pictures per second of all threads.
double rate(const Pictures& pictures, const decode::ImageDecoder& decoder,
            const StorageTrialOptions& options) {
  std::atomic<std::uint64_t> next{0};
  const auto start = SteadyClock::now();
  const auto end = start + std::chrono::duration<double>(options.seconds);
  const auto work = [&] {
    std::vector<std::byte> slot(decoder.output().num_bytes());
    while (SteadyClock::now() < end && !options.stop.stop_requested()) {
      const std::uint64_t i = next++;
      unless_impossible([&] { decoder.decode(pictures[i % pictures.size()], {.index = i}, slot); });
    }
  };
  {
    std::vector<std::jthread> team;
    for (int t = 1; t < options.threads; ++t) team.emplace_back(work);
    work();
  }
  return static_cast<double>(next) /
         std::chrono::duration<double>(SteadyClock::now() - start).count();
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

std::string size_text(std::uint64_t bytes) {
  const auto value = static_cast<double>(bytes);
  return value < 1e9 ? fmt::format("{:.4g} MB", value / 1e6)
                     : fmt::format("{:.4g} GB", value / 1e9);
}

}  // namespace

// A reservoir: the n-th picture replaces one of those there with a probability of their number / n.
void StorageTrial::add(const io::Bytes& picture, const decode::ImageSize& size) {
  const std::uint64_t number = pictures_++;
  bytes_ += picture.size();
  const std::int64_t pixels = std::int64_t{size.height} * size.width;
  if (tried_.size() < kMostPictures && pixels_ + pixels <= kMostPixels) {
    tried_.push_back(picture);
    pixels_of_.push_back(pixels);
    pixels_ += pixels;
    return;
  }
  if (tried_.empty()) return;
  KeyedRng rng({.index = number, .purpose = kTried});
  const auto at = static_cast<std::uint64_t>(static_cast<double>(rng.uniform()) *
                                             static_cast<double>(number + 1));
  if (at >= tried_.size() || pixels_ - pixels_of_[at] + pixels > kMostPixels) return;
  pixels_ += pixels - pixels_of_[at];
  tried_[at] = picture;
  pixels_of_[at] = pixels;
}

StorageReport StorageTrial::run() const {
  if (tried_.empty())
    throw Error(ErrorCode::kNotFound, "there is no picture whose storage could be tried");
  const decode::ImageDecoder decoder(
      {.transforms = {decode::RandomResizedCrop{.size = options_.size},
                      decode::RandomHorizontalFlip{}, decode::Normalize::imagenet()},
       .dtype = decode::DType::kBFloat16});
  TaskArena threads(options_.threads);
  std::vector<Way> ways;
  std::vector<Pictures> stored;
  for (Way& way : all_ways(options_.size)) {
    if (options_.stop.stop_requested()) throw Error(ErrorCode::kCancelled, "stopped");
    Pictures pictures = stored_by(way, tried_, threads);
    const bool is_new = std::ranges::none_of(
        stored, [&](const Pictures& other) { return num_bytes(other) == num_bytes(pictures); });
    if (!is_new) continue;
    ways.push_back(std::move(way));
    stored.push_back(std::move(pictures));
  }
  std::vector<std::vector<double>> rates(ways.size());
  for (int round = 0; round < kRounds; ++round)
    for (std::size_t i = 0; i < ways.size(); ++i)
      rates[i].push_back(rate(stored[i], decoder, options_));
  if (options_.stop.stop_requested()) throw Error(ErrorCode::kCancelled, "stopped");
  StorageReport report{
      .pictures = tried_.size(), .size = options_.size, .threads = options_.threads};
  for (std::size_t i = 0; i < ways.size(); ++i) {
    const double ratio = num_bytes(stored[i]) / num_bytes(stored[0]);
    report.ways.push_back({.options = ways[i].options,
                           .bytes = static_cast<std::uint64_t>(ratio * static_cast<double>(bytes_)),
                           .images_per_s = median(rates[i]),
                           .bytes_ratio = ratio,
                           .images_per_s_ratio = median(rates[i]) / median(rates[0])});
  }
  return report;
}

std::vector<std::string> StorageReport::lines() const {
  std::vector<std::string> lines = {fmt::format(
      "stored otherwise, by {} of them; images/s: random-resized-crop {}, flip, normalise, to "
      "bf16, on {}",
      counted(pictures, "picture"), size, counted(static_cast<std::uint64_t>(threads), "thread"))};
  for (const StorageWay& way : ways)
    lines.push_back(fmt::format("  {:<36} {:>10} x {:<5.3g} {:>9.0f} images/s x {:.3g}",
                                way.options.empty() ? "as they are" : way.options,
                                size_text(way.bytes), way.bytes_ratio, way.images_per_s,
                                way.images_per_s_ratio));
  return lines;
}

}  // namespace millrace::tools
