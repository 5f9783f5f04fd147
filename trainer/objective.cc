#include "trainer/objective.h"

#include <algorithm>
#include <utility>

#include "io/base/error.h"

namespace millrace::trainer {
namespace {

bool is_classification(const Head& head) { return head.loss == "cross_entropy"; }

Target target_of(const pipeline::Batch& batch, const std::string& name) {
  const pipeline::BatchField& field = batch.field(name);
  switch (field.spec.dtype) {
    case decode::DType::kInt64:
      return {.labels = field.as<std::int64_t>()};
    case decode::DType::kFloat32:
      return {.values = field.as<float>()};
    default:
      break;
  }
  throw Error(ErrorCode::kInvalidArgument,
              "target field " + name + " is neither int64 nor float32");
}

// Names the sample whose label is outside the classes; what the loss itself cannot know.
void check_labels(const pipeline::Batch& batch, const Target& target, std::int64_t classes) {
  const auto bad = first_bad_label(target.labels, batch.valid, classes);
  if (!bad) return;
  throw Error(
      ErrorCode::kCorrupt,
      "label " + std::to_string(target.labels[*bad]) + " is outside the model's " +
          std::to_string(classes) + " classes",
      {.key = *bad < batch.keys.size() ? batch.keys[*bad] : std::string(), .stage = "loss"});
}

}  // namespace

LossObjective::LossObjective(LossObjectiveOptions options) : options_(std::move(options)) {
  if (options_.heads.empty()) {
    throw Error(ErrorCode::kInvalidArgument, "an objective needs at least one loss");
  }
  for (const Head& head : options_.heads) losses_.push_back(make_loss(head.loss, head.options));
  measures_ = {"loss"};
  if (std::any_of(options_.heads.begin(), options_.heads.end(), is_classification)) {
    measures_.insert(measures_.end(), {"top1", "top5"});
  }
  for (std::size_t i = 0; options_.heads.size() > 1 && i < options_.heads.size(); ++i) {
    measures_.push_back("loss." + std::to_string(i));
  }
}

LossObjective::~LossObjective() = default;

void LossObjective::score(const ScoreRequest& request, std::span<double> sums) const {
  const bool classifies = measures_.size() > 2 && measures_[1] == "top1";
  for (std::size_t i = 0; i < losses_.size(); ++i) {
    const Head& head = options_.heads[i];
    const nn::OutputView output = request.plan.output(head.output);
    const Target target = target_of(request.batch, head.target);
    if (is_classification(head)) check_labels(request.batch, target, output.shape.at(1));
    // The head's weight goes into the divisor, so that the gradient carries it.
    const std::span<float> gradient =
        request.gradients ? request.plan.output_gradient(head.output).data : std::span<float>();
    const LossSums result = losses_[i]->evaluate({.prediction = output,
                                                  .target = target,
                                                  .valid = request.batch.valid,
                                                  .divisor = request.divisor / head.weight,
                                                  .gradient = gradient});
    sums[0] += head.weight * result.loss;
    if (is_classification(head)) {
      sums[1] += static_cast<double>(result.top1);
      sums[2] += static_cast<double>(result.top5);
    }
    if (losses_.size() > 1) sums[(classifies ? 3U : 1U) + i] += result.loss;
  }
}

}  // namespace millrace::trainer
