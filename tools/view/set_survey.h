// SetSurvey: what one pass over a set's samples finds: histograms, each shard's sums, the faults,
// and the pictures themselves, by which the page compares and names them.
//
// Histograms and sums are of all samples. Of the pictures, a set with more than `most_pictures`
// keeps those whose digest begins with so many zero bits that they are few enough: a sample that is
// the same however the set is sharded, and holds all copies of a file or none.
//
// Buffers: 256 bytes and a name for each of `most_pictures` pictures, 100,000 faults; a batch of
// samples with their pixels, one for each thread. Threads: one at a time.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <stop_token>
#include <string>
#include <vector>

#include "io/base/log.h"
#include "io/opener.h"
#include "tools/stats/set_stats.h"
#include "tools/view/picture_facts.h"
#include "wds/fault_ledger.h"
#include "wds/sample.h"

namespace millrace::trainer {
class TerminalLine;
}

namespace millrace::tools {

struct SurveyedPicture {
  std::uint32_t set = 0;     ///< SurveyInput::set
  std::uint32_t shard = 0;   ///< in SetSurvey::shards
  std::uint64_t offset = 0;  ///< of its sample: Sample::offset
  std::string member = {};   ///< "00000042.jpg"
  std::uint64_t bytes = 0;   ///< of the file
  std::optional<std::int64_t> label = {};
  PictureFacts facts = {};
};

/// A sample that has no picture, which a model of pictures cannot be trained on.
struct PicturelessSample {
  std::uint32_t shard = 0;  ///< in SetSurvey::shards
  std::string key = {};
};

struct SurveyedShard {
  std::string url;
  std::uint64_t samples = 0;
  std::uint64_t pictures = 0;
  std::uint64_t bytes = 0;  ///< of the samples' fields
  std::uint64_t broken = 0;
  std::uint64_t classes = 0;
};

/// Counts of values between `edges`: below the first, from each to the next, from the last on.
struct Histogram {
  std::vector<double> edges;
  std::vector<std::uint64_t> counts = std::vector<std::uint64_t>(edges.size() + 1);

  void add(double value);
};

constexpr std::uint64_t kMostSurveyed = std::uint64_t{1} << 18;

struct SurveyInput {
  std::vector<std::string> shards;
  const io::Opener& opener;
  wds::FaultPolicy policy = {};
  Log log = {};
  std::stop_token stop = {};
  /// The pictures' suffixes, "jpg;png"; a sample's first match counts.
  std::string suffixes = {};
  bool tolerate_truncated = false;
  std::uint64_t limit = 0;  ///< samples to read; 0: all
  int threads = 0;          ///< 0: one per core
  /// SetSurvey::pictures has so many at most.
  std::uint64_t most_pictures = kMostSurveyed;
  std::uint32_t set = 0;
  trainer::TerminalLine* terminal = nullptr;  ///< borrowed; null: none
};

class SetSurvey {
 public:
  explicit SetSurvey(const std::vector<std::string>& urls,
                     std::uint64_t most_pictures = kMostSurveyed);

  /// `shard`: its number. Called in the shards' order.
  void add_sample(std::uint32_t shard, std::uint64_t bytes);
  void add(SurveyedPicture picture);
  void add_without_picture(PicturelessSample sample);
  void add_class(std::uint32_t shard, std::int64_t label);
  /// Keeps the pictures whose digest begins with `bits` zero bits.
  void sample_pictures(int bits);
  void take_faults(const wds::FaultLedger& ledger);

  std::uint64_t samples() const;
  std::uint64_t bytes() const;
  std::uint64_t num_pictures() const;

  std::vector<SurveyedShard> shards = {};
  SetStats stats = {};  ///< of the samples that are not broken; without the pixels' sums
  Histogram sides;      ///< the longer side, in pixels
  Histogram aspects;    ///< width over height
  Histogram sizes;      ///< of files, in bytes
  Histogram levels;     ///< mean grey levels
  std::vector<wds::FaultLedger::Entry> faults = {};
  std::uint64_t broken = 0;           ///< samples that the faults cost
  std::uint64_t num_pictureless = 0;  ///< samples that have no picture and are not broken
  /// The first kMostPictureless of them.
  std::vector<PicturelessSample> pictureless = {};
  static constexpr std::size_t kMostPictureless = 200;
  /// In the set's order.
  std::vector<SurveyedPicture> pictures = {};
  int sampled_bits = 0;  ///< one picture of 2 to this power is among `pictures`

 private:
  std::uint64_t most_pictures_;
  std::uint32_t shard_of_classes_ = 0;
  std::set<std::int64_t> classes_ = {};  ///< of that shard
};

/// Throws: as the policy and scan() do; Cancelled.
SetSurvey survey_set(const SurveyInput& input);

}  // namespace millrace::tools
