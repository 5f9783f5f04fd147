#include "tools/view/set_survey.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <utility>

#include "tools/metered_opener.h"
#include "tools/picture_scan.h"

namespace millrace::tools {
namespace {

/// One pass over the shards.
class SurveyPass {
 public:
  explicit SurveyPass(const SurveyInput& input)
      : input_(input),
        survey_(input.shards, input.most_pictures),
        ledger_(input.policy, input.log) {
    for (std::size_t i = 0; i < input.shards.size(); ++i)
      numbers_.try_emplace(input.shards[i], static_cast<std::uint32_t>(i));
  }

  SetSurvey run() {
    scan_pictures<FoundPicture>(
        {.shards = input_.shards,
         .opener = borrowed(input_.opener),
         .ledger = ledger_,
         .stop = input_.stop,
         .suffixes = input_.suffixes,
         .tolerate_truncated = input_.tolerate_truncated,
         .limit = input_.limit,
         .threads = input_.threads,
         .terminal = input_.terminal},
        [](const wds::Field& field, const decode::Image& image) {
          return FoundPicture{.suffix = field.suffix,
                              .bytes = field.data.size(),
                              .facts = facts_of(field.data, image)};
        },
        [this](const wds::Sample& sample, const ScannedSample<FoundPicture>& found) {
          survey_.add_sample(numbers_.at(*sample.url), sample.num_bytes());
          if (!found.fault) add(sample, found);
        });
    survey_.take_faults(ledger_);
    return std::move(survey_);
  }

 private:
  struct FoundPicture {
    std::string suffix = {};
    std::uint64_t bytes = 0;
    PictureFacts facts = {};
  };

  void add(const wds::Sample& sample, const ScannedSample<FoundPicture>& found) {
    const std::uint32_t shard = numbers_.at(*sample.url);
    SampleStats stats{.label = found.label};
    if (found.picture) stats.size = found.picture->facts.size;
    survey_.stats.add(stats);
    if (found.label) survey_.add_class(shard, *found.label);
    if (found.picture)
      survey_.add({.set = input_.set,
                   .shard = shard,
                   .offset = sample.offset,
                   .member = sample.key + "." + found.picture->suffix,
                   .bytes = found.picture->bytes,
                   .label = found.label,
                   .facts = found.picture->facts});
    else
      survey_.add_without_picture({.shard = shard, .key = sample.key});
  }

  const SurveyInput& input_;
  SetSurvey survey_;
  wds::FaultLedger ledger_;
  std::map<std::string, std::uint32_t> numbers_;
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
