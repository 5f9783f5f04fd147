#include <iterator>
#include <utility>

#include "io/base/error.h"
#include "pipeline/pipeline.h"
#include "wds/shard_spec.h"

namespace millrace::pipeline {

Pipeline::Builder& Pipeline::Builder::shards(std::string_view spec) {
  specs_.emplace_back(spec);
  return *this;
}

Pipeline::Builder& Pipeline::Builder::shards(std::vector<std::string> urls) {
  options_.shards = std::move(urls);
  return *this;
}

Pipeline::Builder& Pipeline::Builder::mix(double weight, std::string_view spec) {
  mix_.emplace_back(weight, spec);
  return *this;
}

Pipeline::Builder& Pipeline::Builder::mix(wds::MixEnd end) {
  options_.mix.end = end;
  return *this;
}

Pipeline::Builder& Pipeline::Builder::join(std::string_view spec) {
  joins_.emplace_back(spec);
  return *this;
}

Pipeline::Builder& Pipeline::Builder::source(std::shared_ptr<const SampleSource> source) {
  options_.source = std::move(source);
  return *this;
}

Pipeline::Builder& Pipeline::Builder::split(wds::SplitOptions split) {
  options_.split = std::move(split);
  return *this;
}

Pipeline::Builder& Pipeline::Builder::shuffle(wds::ShuffleOptions shuffle) {
  options_.shuffle = shuffle;
  return *this;
}

Pipeline::Builder& Pipeline::Builder::skip(std::uint64_t samples) {
  options_.range.skip = samples;
  return *this;
}

Pipeline::Builder& Pipeline::Builder::take(std::uint64_t samples) {
  require(samples > 0, "an epoch takes at least one sample");
  options_.range.take = samples;
  return *this;
}

Pipeline::Builder& Pipeline::Builder::field(FieldSpec field) {
  options_.fields.push_back(std::move(field));
  return *this;
}

Pipeline::Builder& Pipeline::Builder::batch(BatchOptions batch) {
  options_.batch = batch;
  return *this;
}

Pipeline::Builder& Pipeline::Builder::mixup(MixUpOptions mixup) {
  options_.mixup = std::move(mixup);
  return *this;
}

Pipeline::Builder& Pipeline::Builder::epochs(EpochOptions epochs) {
  options_.epochs = epochs;
  return *this;
}

Pipeline::Builder& Pipeline::Builder::resources(ResourceOptions resources) {
  options_.resources = resources;
  return *this;
}

Pipeline::Builder& Pipeline::Builder::faults(wds::FaultPolicy policy) {
  options_.faults = std::move(policy);
  return *this;
}

Pipeline::Builder& Pipeline::Builder::indexed(bool indexed) {
  options_.indexed = indexed;
  return *this;
}

Pipeline::Builder& Pipeline::Builder::scan(bool scan, std::string cache) {
  options_.scan = scan;
  options_.scan_cache = std::move(cache);
  return *this;
}

Pipeline::Builder& Pipeline::Builder::opener(std::shared_ptr<const io::Opener> opener) {
  options_.opener = std::move(opener);
  return *this;
}

Pipeline::Builder& Pipeline::Builder::opener(const io::Opener& opener) {
  options_.opener = {std::shared_ptr<void>(), &opener};
  return *this;
}

Pipeline::Builder& Pipeline::Builder::stop(std::stop_token stop) {
  options_.stop = std::move(stop);
  return *this;
}

Pipeline::Builder& Pipeline::Builder::log(Log log) {
  options_.log = std::move(log);
  return *this;
}

Pipeline::Builder& Pipeline::Builder::resume(Position position) {
  options_.resume = std::make_shared<const Position>(std::move(position));
  return *this;
}

PipelineOptions Pipeline::Builder::expanded() const {
  PipelineOptions options = options_;
  const wds::ShardSpecOptions how = {.opener = options.opener.get(), .stop = options.stop};
  if (!specs_.empty()) {
    const auto urls = wds::expand_shards(specs_, how);
    options.shards.insert(options.shards.end(), urls.begin(), urls.end());
  }
  require(mix_.empty() || options.shards.empty(), "a pipeline has shards or a mix, not both");
  for (const auto& [weight, spec] : mix_) {
    const auto urls = wds::expand_shards({spec}, how);
    options.shards.insert(options.shards.end(), urls.begin(), urls.end());
    options.mix.parts.push_back({.weight = weight, .num_shards = urls.size()});
  }
  for (const std::string& spec : joins_) options.joins.push_back(wds::expand_shards({spec}, how));
  return options;
}

Pipeline Pipeline::Builder::build() { return Pipeline(expanded()); }

}  // namespace millrace::pipeline
