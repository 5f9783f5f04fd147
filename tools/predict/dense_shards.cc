#include "tools/predict/dense_shards.h"

#include <cstdint>
#include <span>

#include "decode/encode.h"
#include "io/base/error.h"
#include "tools/dense_output.h"

namespace millrace::tools {
namespace {

io::Bytes mask_png(const DensePlanes& planes, const decode::Extent& size, const TaskChoice& task,
                   std::span<const decode::RgbColour> palette) {
  if (task.has_class_mask())
    return decode::encode_mask_png(
        classes_of(planes, size),
        palette.size() <= 256 ? palette : std::span<const decode::RgbColour>());
  const auto set = static_cast<std::uint8_t>(task.what().mask->set_value);
  return decode::encode_png(grey_image(values_of(planes, size), size, [set](float logit) {
    return logit > 0.0F ? set : std::uint8_t{0};
  }));
}

/// With as many bits as the level that is 1 has.
io::Bytes depth_png(const DensePlanes& planes, const decode::Extent& size,
                    const decode::GreyValues& levels) {
  if (levels == decode::GreyValues())
    return decode::encode_png(grey_image(values_of(planes, size), size, depth_level));
  decode::ClassImage depth{.height = size.height, .width = size.width, .labels = {}};
  for (const float value : values_of(planes, size))
    depth.labels.push_back(stored_level(value, levels));
  return decode::encode_mask_png(depth);
}

}  // namespace

void DenseShards::write(const trainer::Prediction& one) try {
  const TaskChoice& task = choice_.task;
  const std::span<const std::int64_t> stored = one.carried.at(0);
  const decode::Extent size(static_cast<int>(stored[0]), static_cast<int>(stored[1]));
  DensePlanes planes{
      .values = {}, .canvas = choice_.images.canvas(), .content = choice_.images.content(size)};
  wds::WriterSample sample{.key = std::string(one.key), .fields = {}};
  std::size_t output = 0;
  if (task.has_mask()) {
    planes.values = one.outputs.at(output++);
    sample.fields.push_back({task.what().mask->field, mask_png(planes, size, task, palette_)});
  }
  if (task.has_depth()) {
    planes.values = one.outputs.at(output);
    const DepthTarget& depth = *task.what().depth;
    sample.fields.push_back({depth.field, depth_png(planes, size, depth.values)});
  }
  writer_.write(sample);
} catch (Error& error) {
  error.annotate({.key = std::string(one.key)});
  throw;
}

}  // namespace millrace::tools
