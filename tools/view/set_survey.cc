#include "tools/view/set_survey.h"

#include <tbb/parallel_for.h>

#include <algorithm>
#include <cstddef>
#include <map>
#include <memory>
#include <utility>

#include "decode/text.h"
#include "io/base/error.h"
#include "tools/known_samples.h"
#include "tools/metered_opener.h"
#include "tools/progress.h"
#include "tools/scan.h"
#include "tools/task_arena.h"

namespace millrace::tools {
namespace {

/// Limits of the samples that are decoded in parallel: number and bytes.
constexpr std::size_t kSurveyBatch = 256;
constexpr std::size_t kSurveyBytes = std::size_t{64} * 1024 * 1024;

/// What one sample says.
struct SampleFindings {
  std::optional<std::int64_t> label = {};
  std::optional<SurveyedPicture> picture = {};
  std::optional<Error> fault = {};
};

/// One pass over the shards.
class SurveyPass {
 public:
  explicit SurveyPass(const SurveyInput& input)
      : input_(input),
        survey_(input.shards, input.most_pictures),
        ledger_(input.policy, input.log),
        threads_(input.threads),
        expected_(expected(input)),
        progress_(input.terminal, "samples", expected_, "reading the first samples"),
        opener_(progress_.follow(borrowed(input.opener), input.shards, Follow::kUnlessCounted)) {
    for (std::size_t i = 0; i < input.shards.size(); ++i)
      numbers_.try_emplace(input.shards[i], static_cast<std::uint32_t>(i));
  }

  SetSurvey run() {
    std::uint64_t taken = 0;
    const auto take = [&](const wds::Sample& sample) {
      batch_.push_back(sample);
      bytes_ += sample.num_bytes();
      if (batch_.size() == kSurveyBatch || bytes_ >= kSurveyBytes) flush();
      return going_ && ++taken != input_.limit;
    };
    scan({.shards = input_.shards,
          .opener = *opener_,
          .ledger = ledger_,
          .stop = input_.stop,
          .indexed = true},
         take);
    if (going_) flush();
    survey_.take_faults(ledger_);
    return std::move(survey_);
  }

 private:
  static std::uint64_t expected(const SurveyInput& input) {
    const std::uint64_t known = known_samples(input.policy, input.shards);
    const bool is_cut = input.limit > 0 && (known == 0 || input.limit < known);
    return is_cut ? input.limit : known;
  }

  void flush() {
    std::vector<SampleFindings> found(batch_.size());
    threads_.execute([&] {
      tbb::parallel_for(std::size_t{0}, batch_.size(),
                        [&](std::size_t i) { found[i] = look_at(batch_[i]); });
    });
    for (std::size_t i = 0; i < found.size() && going_; ++i) add(batch_[i], found[i]);
    batch_.clear();
    bytes_ = 0;
    progress_.at(survey_.samples());
  }

  SampleFindings look_at(const wds::Sample& sample) const {
    const wds::Field* field = nullptr;
    try {
      SampleFindings found;
      if ((field = sample.find("cls")) != nullptr)
        found.label = decode::decode_integer(field->data);
      if ((field = sample.find_any(input_.suffixes)) != nullptr)
        found.picture = picture_of(sample, *field, found.label);
      return found;
    } catch (Error& fault) {
      fault.annotate({.url = *sample.url,
                      .key = sample.key,
                      .member = sample.key + "." + field->suffix,
                      .offset = field->offset});
      return {.fault = fault};
    }
  }

  SurveyedPicture picture_of(const wds::Sample& sample, const wds::Field& field,
                             const std::optional<std::int64_t>& label) const {
    const decode::Image image =
        decode::decode_image(field.data, {.tolerate_truncated = input_.tolerate_truncated});
    return {.set = input_.set,
            .shard = numbers_.at(*sample.url),
            .offset = sample.offset,
            .member = sample.key + "." + field.suffix,
            .bytes = field.data.size(),
            .label = label,
            .facts = facts_of(field.data, image)};
  }

  void add(const wds::Sample& sample, SampleFindings& found) {
    const std::uint32_t shard = numbers_.at(*sample.url);
    survey_.add_sample(shard, sample.num_bytes());
    if (found.fault) {
      going_ = ledger_.report(*found.fault) != wds::OnFault::kStop;
      return;
    }
    SampleStats stats{.label = found.label};
    if (found.picture) stats.size = found.picture->facts.size;
    survey_.stats.add(stats);
    if (found.label) survey_.add_class(shard, *found.label);
    if (found.picture)
      survey_.add(std::move(*found.picture));
    else
      survey_.add_without_picture({.shard = shard, .key = sample.key});
  }

  const SurveyInput& input_;
  SetSurvey survey_;
  wds::FaultLedger ledger_;
  TaskArena threads_;
  std::uint64_t expected_;
  Progress progress_;
  std::shared_ptr<const io::Opener> opener_;
  std::map<std::string, std::uint32_t> numbers_;
  std::vector<wds::Sample> batch_;
  std::size_t bytes_ = 0;
  bool going_ = true;
};

bool is_sampled(const SurveyedPicture& picture, int bits) {
  return bits == 0 || picture.facts.digest[0] >> (64 - bits) == 0;
}

}  // namespace

void Histogram::add(double value) {
  const auto above = std::ranges::upper_bound(edges, value);
  ++counts[static_cast<std::size_t>(above - edges.begin())];
}

SetSurvey::SetSurvey(const std::vector<std::string>& urls, std::uint64_t most_pictures)
    : sides{.edges = {16, 32, 64, 128, 256, 512, 1024, 2048, 4096}},
      aspects{.edges = {1.0 / 3, 0.5, 2.0 / 3, 0.8, 0.95, 1.05, 1.25, 1.5, 2, 3}},
      sizes{.edges = {100, 200, 500, 1e3, 2e3, 5e3, 1e4, 2e4, 5e4, 1e5, 2e5, 5e5, 1e6, 2e6, 5e6,
                      1e7}},
      levels{.edges = {32, 64, 96, 128, 160, 192, 224}},
      most_pictures_(most_pictures) {
  for (const std::string& url : urls) shards.push_back({.url = url});
}

void SetSurvey::add_sample(std::uint32_t shard, std::uint64_t bytes) {
  ++shards[shard].samples;
  shards[shard].bytes += bytes;
}

void SetSurvey::add(SurveyedPicture picture) {
  const auto& [height, width] = picture.facts.size;
  ++shards[picture.shard].pictures;
  sides.add(std::max(height, width));
  aspects.add(static_cast<double>(width) / std::max(1, height));
  sizes.add(static_cast<double>(picture.bytes));
  levels.add(picture.facts.brightness);
  if (!is_sampled(picture, sampled_bits)) return;
  pictures.push_back(std::move(picture));
  while (pictures.size() > most_pictures_ && sampled_bits < 63) sample_pictures(sampled_bits + 1);
}

void SetSurvey::add_without_picture(PicturelessSample sample) {
  ++num_pictureless;
  if (pictureless.size() < kMostPictureless) pictureless.push_back(std::move(sample));
}

void SetSurvey::add_class(std::uint32_t shard, std::int64_t label) {
  if (shard != shard_of_classes_) classes_.clear();
  shard_of_classes_ = shard;
  classes_.insert(label);
  shards[shard].classes = classes_.size();
}

void SetSurvey::sample_pictures(int bits) {
  sampled_bits = std::max(sampled_bits, bits);
  std::erase_if(pictures,
                [&](const SurveyedPicture& picture) { return !is_sampled(picture, sampled_bits); });
}

void SetSurvey::take_faults(const wds::FaultLedger& ledger) {
  faults = ledger.entries();
  broken = ledger.skipped();
  for (const auto& fault : faults)
    for (SurveyedShard& shard : shards)
      if (fault.where.url == shard.url || fault.where.url == io::printable_url(shard.url))
        shard.broken += fault.samples;
}

std::uint64_t SetSurvey::samples() const {
  std::uint64_t sum = 0;
  for (const SurveyedShard& shard : shards) sum += shard.samples;
  return sum;
}

std::uint64_t SetSurvey::bytes() const {
  std::uint64_t sum = 0;
  for (const SurveyedShard& shard : shards) sum += shard.bytes;
  return sum;
}

std::uint64_t SetSurvey::num_pictures() const {
  std::uint64_t sum = 0;
  for (const SurveyedShard& shard : shards) sum += shard.pictures;
  return sum;
}

SetSurvey survey_set(const SurveyInput& input) { return SurveyPass(input).run(); }

}  // namespace millrace::tools
