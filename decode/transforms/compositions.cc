#include "decode/transforms/compositions.h"

#include <algorithm>
#include <utility>

#include "decode/detail/transform_list.h"
#include "decode/sample_id.h"
#include "io/base/error.h"

namespace millrace::decode {
namespace {

/// Transforms that are done one after another.
template <typename Step>
using Chain = std::vector<std::shared_ptr<const Step>>;

/// Of which one is drawn.
template <typename Step>
struct Branch {
  Chain<Step> steps;
  double up_to = 1;  ///< taken if a number in [0, 1) is below, and it is the first
};
template <typename Step>
using Branches = std::vector<Branch<Step>>;

template <typename Step>
const Chain<Step>& drawn_branch(const Branches<Step>& branches, KeyedRng& rng) {
  const auto number = static_cast<double>(rng.uniform());
  for (const Branch<Step>& branch : branches)
    if (number < branch.up_to) return branch.steps;
  return branches.back().steps;
}

template <typename Step, typename Holds>
bool all_steps(const Branches<Step>& branches, Holds holds) {
  return std::ranges::all_of(branches, [&](const Branch<Step>& branch) {
    return std::ranges::all_of(branch.steps, [&](const auto& step) { return holds(*step); });
  });
}

template <typename Step>
void check_all_channels(const Branches<Step>& branches, int channels) {
  for (const Branch<Step>& branch : branches)
    for (const auto& step : branch.steps) step->check_channels(channels);
}

class DrawnPixelStep final : public PixelStep {
 public:
  explicit DrawnPixelStep(Branches<PixelStep> branches) : branches_(std::move(branches)) {}

  void change(Pixels& pixels, KeyedRng& rng) const override {
    for (const auto& step : drawn_branch(branches_, rng)) step->change(pixels, rng);
  }
  bool moves() const override {
    return !all_steps(branches_, [](const PixelStep& step) { return !step.moves(); });
  }
  void check_channels(int channels) const override { check_all_channels(branches_, channels); }

 private:
  Branches<PixelStep> branches_;
};

class DrawnGeometryStep final : public GeometryStep {
 public:
  explicit DrawnGeometryStep(Branches<GeometryStep> branches)
      : branches_(std::move(branches)), output_(common_output()) {}

  void choose(Geometry& geometry, KeyedRng& rng) const override { choose_for({}, geometry, rng); }
  void choose_for(const SampleId& id, Geometry& geometry, KeyedRng& rng) const override {
    for (const auto& step : drawn_branch(branches_, rng)) step->choose_for(id, geometry, rng);
  }
  std::optional<Extent> output() const override { return output_; }
  Scale scale() const override {
    auto most = Scale::kKept;
    for (const auto& branch : branches_)
      for (const auto& step : branch.steps) most = std::max(most, step->scale());
    return most;
  }
  bool may_be_late() const override {
    return all_steps(branches_, [](const GeometryStep& step) { return step.may_be_late(); });
  }
  void check_channels(int channels) const override { check_all_channels(branches_, channels); }

 private:
  /// Throws: InvalidArgument if the size would depend on what is drawn.
  std::optional<Extent> common_output() const {
    std::vector<std::optional<Extent>> outputs;
    for (const auto& branch : branches_) outputs.push_back(output_of(branch.steps));
    require(std::ranges::all_of(outputs, [&](const auto& one) { return one == outputs.front(); }),
            "pictures of different sizes, whichever is drawn");
    return outputs.front();
  }

  /// nullopt: it is that before. Throws: InvalidArgument if it is another.
  static std::optional<Extent> output_of(const Chain<GeometryStep>& steps) {
    std::vector<const GeometryStep*> all;
    for (const auto& step : steps) all.push_back(step.get());
    if (const auto fixed = detail::output_of(all)) return fixed;
    // Sizes that no transform has by chance.
    for (const Extent& before : {Extent(911, 1277), Extent(113, 67)})
      require(detail::size_after(all, before) == before,
              "the picture's size depends on what is drawn: add a crop of one size to each");
    return {};
  }

  Branches<GeometryStep> branches_;
  std::optional<Extent> output_;
};

/// Lists of transforms, as steps of one kind; nothing if there are others.
template <typename Step>
std::optional<Branches<Step>> branches_of(const std::vector<std::vector<Transform>>& lists,
                                          const std::vector<double>& up_to) {
  Branches<Step> branches;
  for (std::size_t i = 0; i < lists.size(); ++i) {
    branches.push_back({.steps = {}, .up_to = up_to[i]});
    for (const Transform& transform : lists[i]) {
      const std::shared_ptr<const TransformStep> made = transform.make();
      auto step = std::dynamic_pointer_cast<const Step>(made);
      if (!step) return {};
      branches.back().steps.push_back(std::move(step));
    }
  }
  return branches;
}

/// Throws: InvalidArgument.
std::unique_ptr<TransformStep> drawn_step(const std::vector<std::vector<Transform>>& lists,
                                          const std::vector<double>& up_to) {
  if (auto pixels = branches_of<PixelStep>(lists, up_to))
    return std::make_unique<DrawnPixelStep>(std::move(*pixels));
  auto geometry = branches_of<GeometryStep>(lists, up_to);
  require(geometry.has_value(), "transforms are all geometry, or all changes of levels");
  return std::make_unique<DrawnGeometryStep>(std::move(*geometry));
}

/// Shares of 1, each added to those before.
std::vector<double> summed(const std::vector<double>& weights) {
  double sum = 0;
  for (const double weight : weights) sum += weight;
  std::vector<double> up_to = weights;
  double before = 0;
  for (double& share : up_to) share = before += share / sum;
  return up_to;
}

constexpr const char* kOfOneKind = "Calls in [ ], all of them geometry or all changes of levels";

}  // namespace

const ComponentName RandomApply::kName = {"apply", "RandomApply",
                                          "Does other transforms, at random all or none"};

void RandomApply::fields(FieldList& field) {
  field("transforms", transforms, kOfOneKind);
  field("p", probability, {.min = 0, .max = 1}, "Probability");
}

void RandomApply::check() const {
  require(!transforms.empty(), "transforms must not be empty");
  static_cast<void>(make());
}

std::unique_ptr<TransformStep> RandomApply::make() const {
  return drawn_step({transforms, {}}, {probability, 1});
}

const ComponentName RandomChoice::kName = {"choice", "RandomChoice",
                                           "Does one of several transforms"};

void RandomChoice::fields(FieldList& field) {
  field("transforms", transforms, kOfOneKind);
  field("p", weights, {.min = 0}, "How often each is taken, in proportion; none: all equally");
}

void RandomChoice::check() const {
  require(!transforms.empty(), "transforms must not be empty");
  require(weights.empty() || weights.size() == transforms.size(),
          "p has a number for each transform");
  require(weights.empty() || std::ranges::any_of(weights, [](double one) { return one > 0; }),
          "p must not be zeros alone");
  static_cast<void>(make());
}

std::unique_ptr<TransformStep> RandomChoice::make() const {
  std::vector<std::vector<Transform>> lists;
  for (const Transform& transform : transforms) lists.push_back({transform});
  return drawn_step(lists,
                    summed(weights.empty() ? std::vector<double>(lists.size(), 1) : weights));
}

}  // namespace millrace::decode
