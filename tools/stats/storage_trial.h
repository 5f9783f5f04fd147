// StorageTrial: what a set's pictures would take, and how fast they would be read, if they were
// stored in other ways: measured with some of them, on this machine.
//
//   StorageTrial trial({.size = 224, .threads = 2});
//   trial.add(field.data);                            // each picture of the set
//   for (const std::string& line : trial.run().lines()) ...
//
// Buffers: at most kMostPictures pictures, and at most kMostPixels when they are stored raw.
// Threads: one at a time.
#pragma once

#include <cstdint>
#include <stop_token>
#include <string>
#include <vector>

#include "decode/image.h"
#include "io/bytes.h"

namespace millrace::tools {

struct StorageTrialOptions {
  /// Side of the random-resized crop that is timed; JPEGs are tried with a shorter side of 8/7 of
  /// it: 256 for 224.
  int size = 224;
  int threads = 1;
  /// How long each way is timed, in each of three rounds.
  double seconds = 0.25;
  std::stop_token stop = {};
};

/// One way, and what was measured.
struct StorageWay {
  std::string options;      ///< of create and reshard: "--jpeg restarts"; empty: as they are
  std::uint64_t bytes = 0;  ///< of all pictures of the set, as far as the tried ones tell
  double images_per_s = 0;  ///< decoded, cropped, flipped, normalised
  double bytes_ratio = 1;   ///< to how they are
  double images_per_s_ratio = 1;
};

struct StorageReport {
  std::size_t pictures = 0;  ///< that were tried
  int size = 0;
  int threads = 0;
  std::vector<StorageWay> ways = {};  ///< as they are first; only those that change something

  std::vector<std::string> lines() const;
};

class StorageTrial {
 public:
  static constexpr std::size_t kMostPictures = 128;
  static constexpr std::int64_t kMostPixels = std::int64_t{160} << 20;

  explicit StorageTrial(const StorageTrialOptions& options) : options_(options) {}

  /// A picture of the set: each is tried with the same probability.
  void add(const io::Bytes& picture, const decode::ImageSize& size);
  /// Throws: Cancelled; NotFound if there is no picture.
  StorageReport run() const;

 private:
  StorageTrialOptions options_;
  std::uint64_t pictures_ = 0;
  std::uint64_t bytes_ = 0;
  std::int64_t pixels_ = 0;  ///< of those in tried_
  std::vector<io::Bytes> tried_;
  std::vector<std::int64_t> pixels_of_;
};

}  // namespace millrace::tools
