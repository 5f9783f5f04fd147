#include "tools/train/pictures.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "decode/encode.h"
#include "io/byte_sink.h"
#include "pipeline/pipeline.h"
#include "trainer/checkpoint.h"
#include "trainer/nn/plan.h"

namespace millrace::tools {
namespace {

constexpr int kColumns = 5;
constexpr int kGap = 2;  // white lines between pictures

std::uint8_t grey(float share) {
  return static_cast<std::uint8_t>(std::lround(255.0F * std::clamp(share, 0.0F, 1.0F)));
}

/// A sheet of square pictures in rows of kColumns.
class Sheet {
 public:
  Sheet(int side, int rows)
      : side_(side),
        width_(kColumns * (side + kGap) - kGap),
        height_(rows * (side + kGap) - kGap),
        pixels_(static_cast<std::size_t>(3) * static_cast<std::size_t>(width_ * height_), 255) {}

  /// `share(y, x, c)` is a pixel's value in 0 to 1.
  template <typename Share>
  void draw(int row, int column, const Share& share) {
    for (int y = 0; y < side_; ++y)
      for (int x = 0; x < side_; ++x)
        for (int c = 0; c < 3; ++c)
          at(row * (side_ + kGap) + y, column * (side_ + kGap) + x, c) = grey(share(y, x, c));
  }
  void draw_grey(int row, int column, const float* values) {
    draw(row, column, [&](int y, int x, int) { return values[y * side_ + x]; });
  }

  io::Bytes png() const {
    return decode::encode_png({.height = height_,
                               .width = width_,
                               .channels = 3,
                               .pixels = io::Bytes::copy_of(std::as_bytes(std::span(pixels_)))});
  }

 private:
  std::uint8_t& at(int y, int x, int c) {
    return pixels_[static_cast<std::size_t>(3 * (y * width_ + x) + c)];
  }

  int side_;
  int width_;
  int height_;
  std::vector<std::uint8_t> pixels_;
};

/// A model with a checkpoint's weights, compiled for evaluation.
struct Loaded {
  Loaded(const ModelChoice& choice, const std::string& checkpoint, std::int64_t batch_size)
      : model(choice.build()),
        weights(model->parameters().padded_size()),
        state(model->state().padded_size()) {
    trainer::load_checkpoint_model(checkpoint, model->name(),
                                   {{.table = &model->parameters(), .values = weights},
                                    {.table = &model->state(), .values = state}});
    plan = model->compile({.batch_size = batch_size},
                          {.parameters = weights, .gradients = {}, .state = state});
  }

  std::unique_ptr<trainer::GraphModel> model;
  std::vector<float> weights;
  std::vector<float> state;
  std::unique_ptr<trainer::nn::Plan> plan;
};

void draw_sample(Sheet& sheet, int row, const ModelChoice& choice, const pipeline::Batch& batch,
                 trainer::nn::Plan& plan) {
  const int side = choice.images.size;
  const int channels = choice.images.channels;
  const auto area = static_cast<std::size_t>(side * side);
  const auto place = static_cast<std::size_t>(row);
  const decode::Normalize norm = choice.images.normalize();
  const float* image =
      batch.field("image").as<float>().data() + place * area * static_cast<std::size_t>(channels);
  sheet.draw(row, 0, [&](int y, int x, int c) {
    const int channel = std::min(c, channels - 1);
    const auto of = [&](const std::vector<float>& values) {
      return values[std::min(values.size() - 1, static_cast<std::size_t>(channel))];
    };
    return image[(y * side + x) * channels + channel] * of(norm.std) + of(norm.mean);
  });
  sheet.draw_grey(row, 1, batch.field("mask").as<float>().data() + place * area);
  const float* logits = plan.output(0).data.data() + place * area;
  sheet.draw(row, 2, [&](int y, int x, int) { return logits[y * side + x] > 0.0F ? 1.0F : 0.0F; });
  sheet.draw_grey(row, 3, batch.field("depth").as<float>().data() + place * area);
  sheet.draw_grey(row, 4, plan.output(1).data.data() + place * area);
}

}  // namespace

void write_pictures(const ModelChoice& choice, pipeline::PipelineOptions input,
                    const PictureOptions& options) {
  input.batch.size = options.samples;
  pipeline::Pipeline pipeline(std::move(input));
  pipeline::Batch batch;
  if (!pipeline.next(batch)) return;
  const Loaded loaded(choice, options.checkpoint, batch.size);
  const std::vector<std::span<const std::byte>> inputs{batch.field("image").data};
  loaded.plan->forward(inputs, trainer::nn::Mode::kEvaluate);
  const auto rows = static_cast<int>(batch.num_valid);
  Sheet sheet(choice.images.size, rows);
  for (int row = 0; row < rows; ++row) draw_sample(sheet, row, choice, batch, *loaded.plan);
  const auto sink = io::open_file_sink(options.path, {.replace = io::Replace::kAtomically});
  sink->write(sheet.png().span());
  sink->finish();
}

}  // namespace millrace::tools
