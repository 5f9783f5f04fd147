#include "tools/train/pictures.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "io/byte_sink.h"
#include "pipeline/pipeline.h"
#include "tools/dense_output.h"
#include "tools/output_place.h"
#include "tools/view/picture.h"
#include "tools/view/sheet.h"
#include "tools/view/visible.h"
#include "trainer/checkpoint.h"
#include "trainer/nn/plan.h"

namespace millrace::tools {
namespace {

/// A model with a checkpoint's weights, compiled for evaluation.
struct Loaded {
  Loaded(const ModelChoice& choice, const std::string& checkpoint, std::int64_t batch_size,
         const io::Opener& opener)
      : model(choice.build()),
        weights(model->parameters().padded_size()),
        buffers(model->buffers().padded_size()) {
    trainer::load_checkpoint_model(checkpoint, model->name(),
                                   {{.table = &model->parameters(), .values = weights},
                                    {.table = &model->buffers(), .values = buffers}},
                                   opener);
    plan = model->compile({.batch_size = batch_size},
                          {.parameters = weights, .gradients = {}, .buffers = buffers});
  }

  std::unique_ptr<trainer::GraphModel> model;
  std::vector<float> weights;
  std::vector<float> buffers;
  std::unique_ptr<trainer::nn::Plan> plan;
};

/// One sample's pictures, cropped to the image's part of the model's canvas.
class SamplePictures {
 public:
  SamplePictures(const ModelChoice& choice, const pipeline::Batch& batch, trainer::nn::Plan& plan)
      : choice_(choice), batch_(batch), plan_(plan) {}

  std::vector<decode::Image> of(std::size_t slot) {
    const TaskChoice& task = choice_.task;
    const auto stored = batch_.field(kSizeField).as<std::int64_t>().subspan(2 * slot, 2);
    content_ = choice_.images.content({static_cast<int>(stored[0]), static_cast<int>(stored[1])});
    std::vector<decode::Image> pictures = {image(slot)};
    std::size_t output = 0;
    if (task.has_mask()) {
      pictures.push_back(task.has_class_mask() ? wanted_classes(slot) : grey("mask", slot));
      pictures.push_back(predicted_mask(output++, slot));
    }
    if (task.has_depth()) {
      pictures.push_back(grey("depth", slot));
      pictures.push_back(grey_image(values_of(planes(output, slot), size()), size(), depth_level));
    }
    return pictures;
  }

  std::vector<std::string> captions() const {
    std::vector<std::string> captions = {"image"};
    if (choice_.task.has_mask()) captions.insert(captions.end(), {"mask", "predicted"});
    if (choice_.task.has_depth()) captions.insert(captions.end(), {"depth", "predicted"});
    return captions;
  }

 private:
  decode::Extent size() const { return {content_.height, content_.width}; }

  DensePlanes planes_of(std::span<const float> all, std::size_t slot) const {
    const std::size_t each = all.size() / static_cast<std::size_t>(batch_.size);
    return {.values = all.subspan(slot * each, each),
            .canvas = choice_.images.canvas(),
            .content = content_};
  }
  DensePlanes planes(std::size_t output, std::size_t slot) const {
    return planes_of(plan_.output(output).data, slot);
  }

  /// The image as before normalisation. Shape: (H, W, C).
  decode::Image image(std::size_t slot) const {
    const decode::Normalize norm = choice_.images.normalize();
    const auto channels = static_cast<std::size_t>(choice_.images.channels);
    const DensePlanes all = planes_of(batch_.field("image").as<float>(), slot);
    const auto of = [](const std::vector<float>& values, std::size_t c) {
      return values[std::min(values.size() - 1, c)];
    };
    std::vector<std::byte> pixels;
    for_each_place(all, [&](std::size_t place) {
      for (std::size_t c = 0; c < channels; ++c)
        pixels.push_back(static_cast<std::byte>(
            depth_level(all.values[place * channels + c] * of(norm.std, c) + of(norm.mean, c))));
    });
    return {size().height, size().width, choice_.images.channels,
            io::Bytes::take(std::move(pixels))};
  }

  decode::Image wanted_classes(std::size_t slot) const {
    const auto labels = batch_.field("mask").as<std::int64_t>();
    const std::size_t each = labels.size() / static_cast<std::size_t>(batch_.size);
    decode::ClassImage mask{.height = size().height, .width = size().width, .labels = {}};
    for_each_place({.values = {}, .canvas = choice_.images.canvas(), .content = content_},
                   [&](std::size_t place) { mask.labels.push_back(labels[slot * each + place]); });
    return painted(mask);
  }

  decode::Image predicted_mask(std::size_t output, std::size_t slot) const {
    if (choice_.task.has_class_mask()) return painted(classes_of(planes(output, slot), size()));
    return grey_image(values_of(planes(output, slot), size()), size(),
                      [](float logit) { return logit > 0.0F ? 255 : 0; });
  }

  decode::Image painted(const decode::ClassImage& mask) const {
    return painted_classes(mask, choice_.task.palette(choice_.classes));
  }

  /// What has no value is black.
  decode::Image grey(const std::string& field, std::size_t slot) const {
    const DensePlanes all = planes_of(batch_.field(field).as<float>(), slot);
    std::vector<float> values;
    for_each_place(all, [&](std::size_t place) { values.push_back(all.values[place]); });
    return grey_image(values, size(), depth_level);
  }

  /// Visits the positions of the canvas that the picture covers, row by row.
  template <typename Visit>
  static void for_each_place(const DensePlanes& planes, const Visit& visit) {
    const decode::Box& content = planes.content;
    for (int y = content.y; y < content.y + content.height; ++y)
      for (int x = content.x; x < content.x + content.width; ++x)
        visit(static_cast<std::size_t>(y) * static_cast<std::size_t>(planes.canvas.width) +
              static_cast<std::size_t>(x));
  }

  const ModelChoice& choice_;
  const pipeline::Batch& batch_;
  trainer::nn::Plan& plan_;
  decode::Box content_;  ///< of the sample that is being drawn
};

std::vector<LegendEntry> legend_of(const ModelChoice& choice) {
  if (!choice.task.has_class_mask()) return {};
  return class_legend(choice.task.palette(choice.classes), choice.task.names);
}

}  // namespace

void write_pictures(const ModelChoice& choice, pipeline::PipelineOptions input,
                    const PictureOptions& options) {
  input.batch.size = options.samples;
  input.fields.emplace_back(size_field());
  const auto opener = input.opener;
  pipeline::Pipeline pipeline(std::move(input));
  pipeline::Batch batch;
  if (!pipeline.next(batch)) return;
  const Loaded loaded(choice, options.checkpoint, batch.size, *opener);
  const std::vector<std::span<const std::byte>> inputs{batch.field("image").data};
  loaded.plan->forward(inputs, trainer::nn::Mode::kEvaluate);
  SamplePictures pictures(choice, batch, *loaded.plan);
  std::vector<Cell> cells;
  for (std::size_t slot = 0; slot < batch.keys.size(); ++slot)
    if (batch.valid[slot] != 0)
      cells.push_back({.pictures = pictures.of(slot), .label = batch.keys[slot]});
  if (cells.empty()) return;
  const decode::Image sheet =
      draw_sheet(cells, {.captions = pictures.captions(), .legend = legend_of(choice)});
  const auto sink = open_output_file(*opener, options.path, io::Replace::kAtomically);
  sink->write(encode_picture(sheet, options.path).span());
  sink->finish();
}

}  // namespace millrace::tools
