// SetStats: statistics of a set of samples: its classes, its images' sizes and colours.
//
// Threads: one at a time.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "decode/image.h"
#include "tools/stats/pixel_sums.h"
#include "tools/stats/storage_trial.h"

namespace millrace::tools {

/// The contribution of one sample.
struct SampleStats {
  std::optional<std::int64_t> label = {};
  std::optional<decode::ImageSize> size = {};
  PixelSums pixels = {};
};

struct Spread {
  std::int64_t min = 0;
  double median = 0;
  std::int64_t max = 0;
};

class SetStats {
 public:
  void add(const SampleStats& sample);
  /// Adds another process's.
  void add(const SetStats& other);
  /// For another process of the run, as JSON in CBOR's bytes.
  std::vector<std::uint8_t> packed() const;
  static SetStats unpacked(const std::vector<std::uint8_t>& bytes);

  std::uint64_t samples = 0;
  std::uint64_t images = 0;
  std::map<std::int64_t, std::uint64_t> classes = {};
  PixelSums pixels = {};

  Spread heights() const { return spread(heights_); }
  Spread widths() const { return spread(widths_); }

  struct SizeCount {
    decode::ImageSize size;
    std::uint64_t images = 0;
  };
  /// The `count` most common sizes, the most common first.
  std::vector<SizeCount> common_sizes(std::size_t count) const;

 private:
  static Spread spread(const std::map<int, std::uint64_t>& counts);

  std::map<int, std::uint64_t> heights_;
  std::map<int, std::uint64_t> widths_;
  std::map<std::pair<int, int>, std::uint64_t> sizes_;
};

/// `names`: the class names, or empty. `storage`: what was tried.
std::string to_json(const SetStats& stats, const std::vector<std::string>& names,
                    const std::optional<StorageReport>& storage = {});
std::vector<std::string> to_lines(const SetStats& stats, const std::vector<std::string>& names);

}  // namespace millrace::tools
