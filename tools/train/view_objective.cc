#include "tools/train/view_objective.h"

#include <algorithm>
#include <cstring>

#include "io/base/error.h"
#include "tools/values.h"
#include "trainer/hlo/score_program.h"

namespace millrace::tools {
namespace {

struct View {
  std::int64_t shift = 0;  ///< of what is seen, down and right
  bool is_mirrored = false;
  float share = 1.0F;
};

/// All but the picture itself, which has the rest.
std::vector<View> other_views(EvaluationViews views) {
  switch (views) {
    case EvaluationViews::kOne:
      return {};
    case EvaluationViews::kMirror:
      return {{.is_mirrored = true, .share = 0.5F}};
    case EvaluationViews::kMirrorShift:
      return {{.is_mirrored = true, .share = 0.25F},
              {.shift = -1, .share = 0.125F},
              {.shift = -1, .is_mirrored = true, .share = 0.125F},
              {.shift = 1, .share = 0.125F},
              {.shift = 1, .is_mirrored = true, .share = 0.125F}};
  }
  return {};
}

/// Of a border that is reflected without its last pixel.
std::vector<std::size_t> shifted(std::int64_t size, std::int64_t shift) {
  std::vector<std::size_t> places;
  for (std::int64_t i = 0; i < size; ++i) {
    const std::int64_t at = std::abs(i + shift);
    places.push_back(static_cast<std::size_t>(
        std::clamp(at < size ? at : 2 * (size - 1) - at, std::int64_t{0}, size - 1)));
  }
  return places;
}

/// The view of pictures (N, H, W, C); of other values a copy.
std::vector<std::byte> seen(const pipeline::BatchField& field, const View& view) {
  std::vector<std::byte> values(field.data.begin(), field.data.end());
  const std::vector<std::int64_t>& shape = field.spec.shape;
  if (shape.size() != 4 || values.empty()) return values;
  const std::vector<std::size_t> rows = shifted(shape[1], view.shift);
  std::vector<std::size_t> columns = shifted(shape[2], view.shift);
  if (view.is_mirrored) std::ranges::reverse(columns);
  const auto pictures = static_cast<std::size_t>(shape[0]);
  const std::size_t picture = values.size() / pictures;
  const std::size_t row = picture / rows.size();
  const std::size_t pixel = row / columns.size();
  std::byte* to = values.data();
  for (std::size_t n = 0; n < pictures; ++n)
    for (const std::size_t y : rows)
      for (const std::size_t x : columns) {
        std::memcpy(to, field.data.data() + n * picture + y * row + x * pixel, pixel);
        to += pixel;
      }
  return values;
}

void forward(const trainer::Objective& objective, const trainer::ScoreRequest& request,
             const View& view) {
  std::vector<std::vector<std::byte>> values;
  for (const std::string& name : objective.inputs())
    values.push_back(seen(request.batch.field(name), view));
  const std::vector<std::span<const std::byte>> inputs(values.begin(), values.end());
  request.plan.forward(inputs, trainer::nn::Mode::kEvaluate);
}

/// The outputs of all views so far, by their shares.
class Mean {
 public:
  explicit Mean(trainer::nn::Plan& plan) : plan_(plan), sums_(plan.num_outputs()) {}

  void add(float share) {
    for (std::size_t i = 0; i < sums_.size(); ++i) {
      const std::span<const float> values = plan_.output(i).data;
      sums_[i].resize(values.size());
      for (std::size_t k = 0; k < values.size(); ++k) sums_[i][k] += share * values[k];
    }
  }
  void write() const {
    for (std::size_t i = 0; i < sums_.size(); ++i)
      std::ranges::copy(sums_[i], plan_.output(i).data.begin());
  }

 private:
  trainer::nn::Plan& plan_;
  std::vector<std::vector<float>> sums_;
};

}  // namespace

CLI::Option* declare_views(CLI::App& app, EvaluationViews& views) {
  return add_choice(
      app, "--views", views, kViewWords,
      "In evaluation, views of each picture, over which the model's outputs are averaged: "
      "mirror, its mirror image too; mirror-shift, also both shifted by a pixel");
}

void check_views(EvaluationViews views, bool is_dense) {
  require(views == EvaluationViews::kOne || !is_dense,
          "--views is for classes and labels: outputs that are pictures would have to be mirrored");
}

void ViewObjective::score(const trainer::ScoreRequest& request, std::span<double> sums) const {
  const std::vector<View> others = other_views(views_);
  if (!request.gradients && !others.empty()) {
    Mean mean(request.plan);
    float left = 1.0F;
    for (const View& view : others) left -= view.share;
    mean.add(left);
    for (const View& view : others) {
      forward(objective_, request, view);
      mean.add(view.share);
    }
    mean.write();
  }
  objective_.score(request, sums);
}

void ViewObjective::check_targets(const pipeline::Batch& batch,
                                  std::span<const trainer::nn::Shape> outputs) const {
  objective_.check_targets(batch, outputs);
}

void ViewObjective::add_records(const pipeline::Batch& batch,
                                std::span<const trainer::nn::OutputView> outputs,
                                std::vector<float>& records) const {
  objective_.add_records(batch, outputs, records);
}

std::optional<trainer::hlo::ScoreResults> ViewObjective::stablehlo(
    const trainer::hlo::ScoreArguments& of) const {
  if (views_ != EvaluationViews::kOne) return {};
  return objective_.stablehlo(of);
}

}  // namespace millrace::tools
