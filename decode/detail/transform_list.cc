#include "decode/detail/transform_list.h"

#include <algorithm>
#include <optional>
#include <string_view>

#include "io/base/check.h"
#include "io/base/error.h"
#include "io/component/component_text.h"

namespace millrace::decode::detail {
namespace {

/// Tables that follow one another, as one.
class LevelChain {
 public:
  explicit LevelChain(Pixels& pixels) : pixels_(pixels) {}

  void add(const LevelStep::Levels& next) {
    if (!pending_) {
      pending_ = next;
      return;
    }
    for (std::uint8_t& level : *pending_) level = next[level];
  }
  void run() {
    if (pending_) apply_levels(pixels_, *pending_);
    pending_.reset();
  }

 private:
  Pixels& pixels_;
  std::optional<LevelStep::Levels> pending_;
};

}  // namespace

Extent size_after(std::span<const GeometryStep* const> steps, const Extent& before) {
  Geometry geometry(before.width, before.height);
  KeyedRng rng({});
  for (const GeometryStep* step : steps) step->choose(geometry, rng);
  return {geometry.height(), geometry.width()};
}

std::optional<Extent> output_of(std::span<const GeometryStep* const> steps) {
  for (std::size_t i = steps.size(); i-- > 0;)
    // What follows changes the size by the size alone, and not at random.
    if (const auto size = steps[i]->output()) return size_after(steps.subspan(i + 1), *size);
  return {};
}

TransformList::TransformList(std::span<const Transform> transforms) {
  for (const Transform& transform : transforms) add(transform);
}

void TransformList::add(const Transform& transform) {
  steps_.push_back(transform.make());
  const TransformStep* step = steps_.back().get();
  const auto in_order = [&](bool is_so, const char* order) {
    if (!is_so) throw Error(ErrorCode::kInvalidArgument, text(transform) + ": " + order);
  };
  const auto draws = [&] {
    return generator_for(step->purpose().value_or(purpose_of(transform.type().name().word)));
  };
  if (const auto* geometry = dynamic_cast<const GeometryStep*>(step)) {
    in_order(geometry->may_be_late() || (pixels_.empty() && scale_ == nullptr),
             "crops and resizes come before transforms of levels, and Normalize comes last");
    geometry_.push_back({geometry, draws()});
  } else if (const auto* pixels = dynamic_cast<const PixelStep*>(step)) {
    in_order(scale_ == nullptr, "transforms of levels come before Normalize");
    pixels_.push_back({pixels, draws()});
  } else {
    in_order(scale_ == nullptr, "Normalize may be given once");
    scale_ = dynamic_cast<const ScaleStep*>(step);
    MILLRACE_CHECK(scale_ != nullptr, "a transform is of one of the three kinds");
  }
}

std::size_t TransformList::generator_for(Purpose purpose) {
  const auto found = std::ranges::find(purposes_, purpose);
  const auto index = static_cast<std::size_t>(found - purposes_.begin());
  if (found == purposes_.end()) purposes_.push_back(purpose);
  return index;
}

Extent TransformList::output() const {
  std::vector<const GeometryStep*> steps;
  for (const auto& one : geometry_) steps.push_back(one.step);
  if (const auto size = output_of(steps)) return *size;
  throw Error(
      ErrorCode::kInvalidArgument,
      "the transforms leave the image's size open: add a crop, or a Resize to height and width");
}

void TransformList::check_channels(int channels) const {
  for (const auto& step : steps_) step->check_channels(channels);
}

void TransformList::start(const SampleId& id, Draws& draws) const {
  draws.id = id;
  draws.generators.clear();
  for (const Purpose purpose : purposes_) draws.generators.push_back(id.rng(purpose));
}

Geometry TransformList::choose(int width, int height, Draws& draws) const {
  Geometry geometry(width, height);
  for (const auto& [step, at] : geometry_)
    step->choose_for(draws.id, geometry, draws.generators[at]);
  return geometry;
}

void TransformList::change(Pixels& pixels, Draws& draws) const {
  LevelChain levels(pixels);
  for (const auto& [step, at] : pixels_) {
    if (const auto* table = dynamic_cast<const LevelStep*>(step)) {
      levels.add(table->levels(draws.generators[at]));
      continue;
    }
    levels.run();
    step->change(pixels, draws.generators[at]);
  }
  levels.run();
}

}  // namespace millrace::decode::detail
