// decode_bench: the image decoder next to its limits, alternating in one run.
//
//   build/release/bin/decode_bench [THREADS [ROUNDS]]
//
// JPEG: images/s of random-resized-crop 224 + flip + normalise + bf16, next to a bare libjpeg-turbo
// loop that fully decodes the same files; and the same of pictures of 448 to 500 pixels, as they
// are and re-coded with restart markers. Small images: 32 × 32 PPM, padded crop + flip + normalise
// + bf16, next to a memcpy of as many output bytes.
//
// `decode_bench photos FILE...` takes JPEGs of yours for the second comparison.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "bench/bare_jpeg.h"
#include "bench/clock_seconds.h"
#include "bench/medians.h"
#include "decode/encode.h"
#include "decode/image_decoder.h"
#include "decode/jpeg_restarts.h"
#include "decode/transforms/center_crop.h"
#include "decode/transforms/normalize.h"
#include "decode/transforms/random_crop.h"
#include "decode/transforms/random_horizontal_flip.h"
#include "decode/transforms/random_resized_crop.h"
#include "decode/transforms/resize.h"
#include "tests/decode/photo.h"

namespace {

using namespace millrace;
using bench::BareJpeg;
using bench::median;
using bench::median_ratio;
using Clock = std::chrono::steady_clock;

constexpr auto kTurn = std::chrono::milliseconds(700);

// The work of one thread: image `i` for i = 0, 1, 2, ...
using Worker = std::function<void(std::size_t i)>;
using MakeWorker = std::function<Worker()>;

// Images per second of `threads` workers in one round.
struct Rate {
  double clock = 0;
  double processor = 0;  // per second that a processor spent on them: other load does not count
};

Rate measure(unsigned threads, const MakeWorker& make) {
  std::atomic<std::size_t> done = 0;
  const double processor = bench::clock_seconds(CLOCK_PROCESS_CPUTIME_ID);
  const auto start = Clock::now();
  {
    std::vector<std::jthread> team;
    team.reserve(threads);
    for (unsigned t = 0; t < threads; ++t) {
      team.emplace_back([&, t] {
        const Worker work = make();
        std::size_t count = 0;
        for (; Clock::now() - start < kTurn; count += 16) {
          for (std::size_t i = 0; i < 16; ++i) work(count + i + std::size_t{t} * 1'000'003);
        }
        done += count;
      });
    }
  }
  const auto images = static_cast<double>(done);
  return {.clock = images / std::chrono::duration<double>(Clock::now() - start).count(),
          .processor = images / (bench::clock_seconds(CLOCK_PROCESS_CPUTIME_ID) - processor)};
}

MakeWorker decoder_worker(const decode::ImageDecoder& decoder,
                          const std::vector<io::Bytes>& files) {
  return [&] {
    return [&, slot = std::vector<std::byte>(decoder.output().num_bytes())](std::size_t i) mutable {
      decoder.decode(files[i % files.size()], {.seed = 1, .index = i}, slot);
    };
  };
}

MakeWorker bare_jpeg_worker(const std::vector<io::Bytes>& files) {
  return [&] {
    return [&, bare = std::make_shared<BareJpeg>()](std::size_t i) {
      bare->decode(files[i % files.size()]);
    };
  };
}

MakeWorker copy_worker(std::size_t bytes) {
  return [=] {
    return [from = std::vector<std::byte>(bytes),
            to = std::vector<std::byte>(bytes)](std::size_t i) mutable {
      from[i % from.size()] = static_cast<std::byte>(i);
      std::memcpy(to.data(), from.data(), from.size());
    };
  };
}

struct Side {
  const char* name;
  MakeWorker make;
};

void compare(const char* title, unsigned threads, int rounds, const Side& ours, const Side& limit,
             const char* goal) {
  std::vector<double> figures;
  std::vector<double> limits;
  for (int round = 0; round < rounds; ++round) {
    limits.push_back(measure(threads, limit.make).clock);
    figures.push_back(measure(threads, ours.make).clock);
  }
  fmt::print(
      "{}, {} threads\n  {:<44}{:>12.0f} images/s\n  {:<44}{:>12.0f} images/s\n"
      "  {:<44}{:>12.2f} (median of {} rounds; {})\n",
      title, threads, ours.name, median(figures), limit.name, median(limits), "ratio",
      median_ratio(figures, limits), rounds, goal);
}

// The first side is what the others are compared with, in processor time.
void compare_by_processor(const char* title, unsigned threads, int rounds,
                          const std::vector<Side>& sides) {
  std::vector<std::vector<double>> rates(sides.size());
  for (int round = 0; round < rounds; ++round)
    for (std::size_t i = 0; i < sides.size(); ++i)
      rates[i].push_back(measure(threads, sides[i].make).processor);
  fmt::print("{}, {} threads, by processor time\n", title, threads);
  for (std::size_t i = 0; i < sides.size(); ++i)
    fmt::print("  {:<44}{:>12.0f} images/s{:>8.2f}\n", sides[i].name, median(rates[i]),
               median_ratio(rates[i], rates[0]));
}

std::size_t mean_size(const std::vector<io::Bytes>& files) {
  std::size_t total = 0;
  for (const io::Bytes& file : files) total += file.size();
  return total / files.size();
}

std::vector<io::Bytes> jpeg_files(std::size_t count) {
  std::vector<io::Bytes> files;
  for (std::size_t i = 0; i < count; ++i)
    files.push_back(decode::encode_jpeg(testing::photo(375, 500, i), {.quality = 90}));
  fmt::print("{} JPEGs of 500 x 375, {} bytes each on average\n", count, mean_size(files));
  return files;
}

std::vector<io::Bytes> square_files(std::size_t count) {
  std::vector<io::Bytes> files;
  for (std::size_t i = 0; i < count; ++i) {
    const int width = i % 2 == 0 ? 448 : 500;
    const int height = i % 4 == 1 ? 375 : width;
    files.push_back(decode::encode_jpeg(testing::photo(height, width, i), {.quality = 90}));
  }
  return files;
}

// What restart markers are worth to crops of `files`.
void compare_restarts(const char* title, unsigned threads, int rounds,
                      const std::vector<io::Bytes>& files) {
  std::vector<io::Bytes> recoded;
  recoded.reserve(files.size());
  for (const io::Bytes& file : files) recoded.push_back(decode::add_restarts(file));
  const std::size_t before = mean_size(files);
  const std::size_t after = mean_size(recoded);
  fmt::print("{} JPEGs, {} bytes each on average, with restart markers {} ({:+.2f} %)\n",
             files.size(), before, after,
             100 * (static_cast<double>(after) / static_cast<double>(before) - 1));
  const decode::ImageDecoder crop(
      {.transforms = {decode::RandomResizedCrop{.size = 224}, decode::RandomHorizontalFlip{},
                      decode::Normalize::imagenet()},
       .dtype = decode::DType::kBFloat16});
  compare_by_processor(title, threads, rounds,
                       {{"bare libjpeg-turbo, whole image", bare_jpeg_worker(files)},
                        {"the same of the files with markers", bare_jpeg_worker(recoded)},
                        {"ImageDecoder", decoder_worker(crop, files)},
                        {"ImageDecoder, with markers (goal 1.35)", decoder_worker(crop, recoded)}});
}

std::vector<io::Bytes> read_files(const std::vector<std::string>& paths) {
  std::vector<io::Bytes> files;
  for (const std::string& path : paths) {
    std::ifstream in(path, std::ios::binary);
    files.push_back(io::Bytes::copy_of(std::string(std::istreambuf_iterator<char>(in), {})));
  }
  return files;
}

std::vector<io::Bytes> ppm_files(std::size_t count) {
  std::vector<io::Bytes> files;
  for (std::size_t i = 0; i < count; ++i) {
    files.push_back(decode::encode_pnm(testing::photo(32, 32, i)));
  }
  return files;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 2 && std::string_view(argv[1]) == "photos") {
    compare_restarts("random-resized-crop 224, flip, normalise, bf16", 1, 7,
                     read_files({argv + 2, argv + argc}));
    return 0;
  }
  const unsigned threads = argc > 1 ? static_cast<unsigned>(std::atoi(argv[1]))
                                    : std::max(1U, std::thread::hardware_concurrency());
  const int rounds = argc > 2 ? std::atoi(argv[2]) : 7;
  using namespace millrace::decode;
  const auto jpegs = jpeg_files(64);
  const ImageDecoder crop({.transforms = {RandomResizedCrop{.size = 224}, RandomHorizontalFlip{},
                                          Normalize::imagenet()},
                           .dtype = DType::kBFloat16});
  compare("random-resized-crop 224, flip, normalise, bf16", threads, rounds,
          {"ImageDecoder", decoder_worker(crop, jpegs)},
          {"bare libjpeg-turbo, whole image", bare_jpeg_worker(jpegs)}, "to reach: 1.20");
  compare_restarts("448 to 500 pixels: random-resized-crop 224, flip, normalise, bf16", threads,
                   rounds, square_files(64));
  const ImageDecoder centre(
      {.transforms = {ResizeShort{.size = 256}, CenterCrop{{224, 224}}, Normalize::imagenet()},
       .dtype = DType::kBFloat16});
  compare("resize 256, centre crop 224, normalise, bf16", threads, rounds,
          {"ImageDecoder", decoder_worker(centre, jpegs)},
          {"bare libjpeg-turbo, whole image", bare_jpeg_worker(jpegs)}, "no goal");
  const auto ppms = ppm_files(1024);
  const ImageDecoder small({.transforms = {RandomCrop{.size = {32, 32}, .padding = 4},
                                           RandomHorizontalFlip{}, Normalize::imagenet()},
                            .dtype = DType::kBFloat16});
  compare("32 x 32 PPM: padded crop, flip, normalise, bf16", threads, rounds,
          {"ImageDecoder", decoder_worker(small, ppms)},
          {"memcpy of the output's bytes", copy_worker(small.output().num_bytes())},
          "to reach with the pipeline: 250000 images/s on 2 cores");
  return 0;
}
