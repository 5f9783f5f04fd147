#include "decode/transforms/normalize.h"

#include "decode/transform_step.h"
#include "io/base/error.h"

namespace millrace::decode {
namespace {

float of_channel(const std::vector<float>& values, std::size_t channel) {
  return values.size() == 1 ? values[0] : values[channel];
}

class NormalizeStep final : public ScaleStep {
 public:
  explicit NormalizeStep(Normalize options) : options_(std::move(options)) {}

  Line line(std::size_t channel) const override {
    const auto deviation = static_cast<double>(of_channel(options_.std, channel));
    const auto mean = static_cast<double>(of_channel(options_.mean, channel));
    return {.slope = static_cast<float>(1.0 / (255.0 * deviation)),
            .offset = static_cast<float>(-mean / deviation)};
  }
  void check_channels(int channels) const override {
    for (const auto* values : {&options_.mean, &options_.std})
      require(values->size() == 1 || values->size() == static_cast<std::size_t>(channels),
              "a normalisation has one value, or one per channel");
  }

 private:
  Normalize options_;
};

}  // namespace

const ComponentName Normalize::kName = {"normalize", "Normalize",
                                        "(level / 255 - mean) / std, per channel"};

void Normalize::fields(FieldList& field) {
  field("mean", mean, "Of each channel, or one for all");
  field("std", std, {.min = 0, .open_min = true}, "Of each channel, or one for all");
}

void Normalize::check() const {
  require(!mean.empty() && !std.empty(), "mean and std need a value");
}

std::unique_ptr<TransformStep> Normalize::make() const {
  return std::make_unique<NormalizeStep>(*this);
}

}  // namespace millrace::decode
