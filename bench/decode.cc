// decode_bench: the image decoder next to its limits, alternating in one run.
//
//   build/release/bin/decode_bench [THREADS [ROUNDS]]
//
// JPEG: images/s of random-resized-crop 224 + flip + normalise + bf16, next to a bare libjpeg-turbo
// loop that fully decodes the same files. Small images: 32 × 32 PPM, padded crop + flip + normalise
// + bf16, next to a memcpy of as many output bytes.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <thread>
#include <vector>

#include "bench/bare_jpeg.h"
#include "bench/medians.h"
#include "decode/encode.h"
#include "decode/image_decoder.h"
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
double measure(unsigned threads, const MakeWorker& make) {
  std::atomic<std::size_t> done = 0;
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
  return static_cast<double>(done) / std::chrono::duration<double>(Clock::now() - start).count();
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
    limits.push_back(measure(threads, limit.make));
    figures.push_back(measure(threads, ours.make));
  }
  fmt::print(
      "{}, {} threads\n  {:<44}{:>12.0f} images/s\n  {:<44}{:>12.0f} images/s\n"
      "  {:<44}{:>12.2f} (median of {} rounds; {})\n",
      title, threads, ours.name, median(figures), limit.name, median(limits), "ratio",
      median_ratio(figures, limits), rounds, goal);
}

std::vector<io::Bytes> jpeg_files(std::size_t count) {
  std::vector<io::Bytes> files;
  std::size_t total = 0;
  for (std::size_t i = 0; i < count; ++i) {
    files.push_back(decode::encode_jpeg(testing::photo(375, 500, i), {.quality = 90}));
    total += files.back().size();
  }
  fmt::print("{} JPEGs of 500 x 375, {} bytes each on average\n", count, total / count);
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
