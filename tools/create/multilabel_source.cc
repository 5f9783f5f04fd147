// Synthetic "multilabel": several shapes per picture, several pictures per patient.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numbers>
#include <span>
#include <utility>

#include "tools/create/canvas.h"
#include "tools/create/shape_classes.h"
#include "tools/create/synthetic_source.h"

namespace millrace::tools {
namespace {

constexpr int kMostShapes = 9;
constexpr float kMeanShapes = 2.5F;
/// Patients have 1, 2, ..., 7 pictures, repeating.
constexpr std::uint64_t kMostPictures = 7;
constexpr std::uint64_t kPicturesOfSeven = kMostPictures * (kMostPictures + 1) / 2;

std::uint64_t patient_of(std::uint64_t index) {
  std::uint64_t patient = index / kPicturesOfSeven * kMostPictures;
  std::uint64_t left = index % kPicturesOfSeven;
  for (std::uint64_t pictures = 1; left >= pictures; ++pictures) {
    left -= pictures;
    ++patient;
  }
  return patient;
}

std::string patient_name(std::uint64_t index) { return fmt::format("p{:04}", patient_of(index)); }

/// One of a picture's n x n cells, so that shapes do not overlap.
struct Tile {
  float width;
  float height;
  float left;
  float top;
};

Shape place_label(int label, const Tile& cell, KeyedRng& rng) {
  Shape shape{.kind = shape_kind(label), .colour = vary(shape_colour(label), rng)};
  shape.radius = std::min(cell.width, cell.height) * (0.38F + 0.1F * rng.uniform());
  shape.x = cell.left + cell.width * (0.45F + 0.1F * rng.uniform());
  shape.y = cell.top + cell.height * (0.45F + 0.1F * rng.uniform());
  shape.angle = (rng.uniform() - 0.5F) * 0.25F * std::numbers::pi_v<float>;
  return shape;
}

class MultilabelSource final : public SampleSource {
 public:
  explicit MultilabelSource(SyntheticOptions options) : options_(std::move(options)) {}

  std::uint64_t size() const override { return options_.count; }
  std::vector<std::string> classes() const override { return shape_class_names(options_.classes); }
  void identify(Sha256& /*into*/) const override {}  // generated from the options only
  std::string group(std::uint64_t index) const override { return patient_name(index); }

  wds::Sample make(std::uint64_t index) const override {
    KeyedRng rng = synthetic_rng(options_, index);
    KeyedRng patient_rng = synthetic_rng(options_, patient_of(index), 1);
    const std::vector<int> labels = draw_labels(rng);
    Canvas canvas(options_.size.height, options_.size.width);
    canvas.fill_noise(rng, ground_colour(patient_rng), 25);
    draw(labels, canvas, rng);
    wds::Sample sample;
    sample.key = fmt::format("{}/{:06}", patient_name(index), index);
    sample.fields = {encode_field(canvas.image(), options_.encoding),
                     make_field("json", io::Bytes::copy_of(json(index, labels)))};
    return sample;
  }

 private:
  /// 0 or 1 for each label.
  std::vector<int> draw_labels(KeyedRng& rng) const {
    const float share = std::min(0.5F, kMeanShapes / static_cast<float>(options_.classes));
    std::vector<int> labels(static_cast<std::size_t>(options_.classes));
    int shapes = 0;
    for (int& label : labels) {
      label = rng.uniform() < share && shapes < kMostShapes ? 1 : 0;
      shapes += label;
    }
    return labels;
  }

  void draw(const std::vector<int>& labels, Canvas& canvas, KeyedRng& rng) const {
    const auto shapes = std::count(labels.begin(), labels.end(), 1);
    const int side = shapes <= 1 ? 1 : shapes <= 4 ? 2 : 3;
    std::vector<int> cells(static_cast<std::size_t>(side * side));
    for (std::size_t i = 0; i < cells.size(); ++i) cells[i] = static_cast<int>(i);
    shuffle(std::span(cells), rng);
    const float width = static_cast<float>(options_.size.width) / static_cast<float>(side);
    const float height = static_cast<float>(options_.size.height) / static_cast<float>(side);
    for (std::size_t label = 0, used = 0; label < labels.size(); ++label) {
      if (labels[label] == 0) continue;
      const int cell = cells[used++];
      const int row = cell / side;
      canvas.draw(place_label(static_cast<int>(label),
                              {.width = width,
                               .height = height,
                               .left = width * static_cast<float>(cell % side),
                               .top = height * static_cast<float>(row)},
                              rng));
    }
  }

  static std::string json(std::uint64_t index, const std::vector<int>& labels) {
    return fmt::format(R"({{"patient":"{}","labels":[{}]}})", patient_name(index),
                       fmt::join(labels, ","));
  }

  SyntheticOptions options_;
};

}  // namespace

std::unique_ptr<SampleSource> make_multilabel_source(const SyntheticOptions& options) {
  return std::make_unique<MultilabelSource>(options);
}

}  // namespace millrace::tools
