// ShardSource: the source that reads shards, by wds::SampleStream, or several sets of them, by
// wds::MixedStream.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "pipeline/options.h"
#include "pipeline/sample_source.h"
#include "wds/mix.h"

namespace millrace::pipeline::detail {

class ShardSource final : public SampleSource {
 public:
  /// Requires: resolved options.
  explicit ShardSource(const PipelineOptions& options);

  std::string name() const override { return "shards"; }
  std::unique_ptr<Stream> open(const Request& request) const override;

 private:
  /// `draws`: of each set's pass, where they are not as many as are kept.
  std::vector<wds::MixPart> parts_of_mix(const std::vector<std::uint64_t>& draws) const;
  std::unique_ptr<Stream> open_mix(const wds::StreamSpec& whole, const Request& request) const;

  wds::StreamSpec spec_;
  MixOptions mix_;
  std::vector<wds::MixPart> parts_;          ///< of the mix, as any of their streams
  std::optional<std::int64_t> mix_samples_;  ///< of an epoch, over all streams; null: no end
  std::shared_ptr<const io::Opener> opener_;
};

}  // namespace millrace::pipeline::detail
