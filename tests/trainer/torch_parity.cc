#include "tests/trainer/torch_parity.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <numeric>

#include "tests/trainer/torch_oracle.h"
#include "trainer/loss/cross_entropy.h"
#include "trainer/loss/value_losses.h"
#include "trainer/optimizer.h"

namespace millrace::trainer {
namespace {

using nn::Mode;
using nn::Precision;

constexpr double kFloat32 = 1e-4;
constexpr double kBFloat16 = 2e-2;
constexpr double kSlack = 2.5;  // times PyTorch's own bf16 error, which depends on chance

std::string table_text(const ParameterTable& table) {
  std::string text;
  for (const Parameter& entry : table.entries()) {
    text += entry.name + ' ' + std::to_string(entry.offset) + ' ' + std::to_string(entry.size);
    for (const std::int64_t dim : entry.shape) text += ' ' + std::to_string(dim);
    text += '\n';
  }
  return text;
}

std::size_t num_pixels(const ParitySetup& setup) {
  return static_cast<std::size_t>(setup.batch * setup.options.image.height *
                                  setup.options.image.width);
}

// Branches scaled to a quarter, as in a slightly trained net: scaled to 1, each block multiplies
// the rounding error of the last.
float start_scale(const std::string& name) {
  return name.ends_with(".bn2.weight") || name.ends_with(".bn3.weight") ? 0.25F : 1.0F;
}

double norm_of(std::span<const float> values) {
  double squares = 0;
  for (const float value : values)
    squares += static_cast<double>(value) * static_cast<double>(value);
  return std::sqrt(squares);
}

// A gradient that is zero but for rounding: of a bias that the next batch norm takes away again.
bool vanishes(std::span<const float> part, double norm_of_all) {
  return norm_of(part) < 1e-10 * norm_of_all;
}

// "unet(width=16)" is unet-16. Of more than one parameter none is PyTorch's.
std::string pytorch_name(const std::string& model) {
  const std::size_t open = model.find('(');
  if (open == model.npos || model.find(',') != model.npos) return model.substr(0, open);
  const std::size_t value = model.find('=') + 1;
  return model.substr(0, open) + '-' + model.substr(value, model.size() - 1 - value);
}

}  // namespace

TorchParity::TorchParity(const ParitySetup& setup)
    : setup_(setup),
      images_(random_values(num_pixels(setup) * static_cast<std::size_t>(setup.options.in_channels),
                            setup.seed)),
      labels_(static_cast<std::size_t>(setup.batch)) {
  std::iota(labels_.begin(), labels_.end(), 1);
  make_heads();
  write_question();
  ask_pytorch();
}

void TorchParity::make_heads() {
  if (!setup_.model.starts_with("unet")) {
    heads_ = {{"logits", losses::CrossEntropy{.label_smoothing = setup_.smoothing}, {}}};
    return;
  }
  std::vector<float> mask = random_values(num_pixels(setup_), 5);
  for (float& value : mask) value = value > 0.0F ? 1.0F : 0.0F;
  heads_ = {{"mask", losses::Bce{}, mask},
            {"depth", losses::Mse{}, random_values(num_pixels(setup_), 6)}};
}

Network TorchParity::make(Precision precision) const {
  Network network(build_model(setup_.model, setup_.options),
                  {.batch_size = setup_.batch, .precision = precision}, 11);
  // A batch norm that starts at (1, 0) would hide exchanged parameters.
  for (const Parameter& entry : network.graph().parameters().entries()) {
    if (entry.decay) continue;
    const auto noise = random_values(entry.size, entry.offset);
    for (std::size_t i = 0; i < entry.size; ++i) {
      float& value = network.parameters()[entry.offset + i];
      value = start_scale(entry.name) * (value + 0.1F * noise[i]);
    }
  }
  return network;
}

void TorchParity::write_question() const {
  Network network = make(Precision::kFloat32);
  const auto& options = setup_.options;
  std::string shape;
  for (const std::int64_t size : {setup_.batch, options.image.height, options.image.width,
                                  options.in_channels, options.num_classes}) {
    shape += std::to_string(size) + ' ';
  }
  testing::write_file(folder_ / "shape", shape + std::to_string(setup_.smoothing));
  testing::write_file(folder_ / "parameters", table_text(network.graph().parameters()));
  testing::write_file(folder_ / "state", table_text(network.graph().buffers()));
  testing::write_values<float>(folder_ / "weights.bin", network.parameters());
  testing::write_values<float>(folder_ / "state.bin", network.buffers());
  testing::write_values<float>(folder_ / "images.bin", images_);
  testing::write_values<std::int64_t>(folder_ / "labels.bin", labels_);
  for (const Head& head : heads_)
    testing::write_values<float>(folder_ / (head.name + ".target.bin"), head.target);
}

void TorchParity::ask_pytorch() const {
  ASSERT_EQ(0,
            testing::run_torch_script({"tests/trainer/torch_models.py", pytorch_name(setup_.model),
                                       folder_.path().string(), std::to_string(setup_.steps),
                                       fmt::format("{:f}", setup_.lr)}));
}

std::vector<float> TorchParity::read(const std::string& file) const {
  return testing::read_floats(folder_ / (file + ".bin"));
}

void TorchParity::near(const std::string& what, std::span<const float> ours) const {
  expect_within(what, ours, half_ ? kBFloat16 : kFloat32);
}

// A deep net's rounding errors are compared with those of PyTorch's own bf16.
void TorchParity::near_in_one_step(const std::string& what, std::span<const float> ours) const {
  if (!half_) return near(what, ours);
  const double theirs = relative_error(read("half_" + what), read(what));
  testing::print_distance("PyTorch's own bf16 " + what, theirs);
  expect_within(what, ours, std::max(kBFloat16, kSlack * theirs));
}

void TorchParity::expect_within(const std::string& what, std::span<const float> ours,
                                double limit) const {
  const std::vector<float> exact = read(what);
  ASSERT_EQ(exact.size(), ours.size()) << what;
  const double error = relative_error(ours, exact);
  testing::print_distance((half_ ? "bf16 " : "fp32 ") + what, error);
  EXPECT_LE(error, limit) << setup_.model << ' ' << what << (half_ ? " bf16" : " fp32");
}

// Writes the outputs' gradients too.
float TorchParity::evaluate_losses(Network& network) const {
  const std::vector<std::uint8_t> valid(labels_.size(), 1);
  const auto divisor = static_cast<double>(setup_.batch);
  double sum = 0;
  for (std::size_t i = 0; i < heads_.size(); ++i) {
    const auto loss = heads_[i].loss.make();
    Target target{.values = heads_[i].target};
    if (heads_[i].target.empty()) target.labels = labels_;
    sum += loss->evaluate({.prediction = network.plan().output(i),
                           .target = target,
                           .valid = valid,
                           .divisor = divisor,
                           .gradient = network.plan().output_gradient(i).data})
               .loss;
  }
  return static_cast<float>(sum / divisor);
}

void TorchParity::compare_outputs(Network& network, const std::string& prefix) const {
  for (std::size_t i = 0; i < heads_.size(); ++i) {
    near_in_one_step(prefix + heads_[i].name, network.plan().output(i).data);
  }
}

void TorchParity::compare_step(Precision precision) {
  half_ = precision == Precision::kBFloat16;
  Network network = make(precision);
  network.forward({images_});
  compare_outputs(network, "");
  near_in_one_step("loss", std::vector<float>{evaluate_losses(network)});
  network.plan().backward(nullptr);
  near_in_one_step("gradients", network.gradients());
  if (!half_) compare_each_gradient(network);
  near("state_after", network.buffers());
  network.forward({images_}, Mode::kEvaluate);
  compare_outputs(network, "evaluated.");
}

void TorchParity::compare_each_gradient(Network& network) const {
  const std::vector<float> exact = read("gradients");
  const double all = norm_of(exact);
  for (const Parameter& entry : network.graph().parameters().entries()) {
    const auto part = std::span(exact).subspan(entry.offset, entry.size);
    const auto ours = network.gradient(entry.name);
    const double error = vanishes(part, all) ? norm_of(ours) / all : relative_error(ours, part);
    testing::print_distance("fp32 gradient " + entry.name, error);
    EXPECT_LE(error, kFloat32) << setup_.model << " gradient " << entry.name << " fp32";
  }
}

void TorchParity::compare_training(Precision precision) {
  half_ = precision == Precision::kBFloat16;
  Network network = make(precision);
  Optimizer optimizer({.rule = Sgd{.momentum = 0.9F}}, network.graph().parameters());
  std::vector<float> momentum(network.parameters().size());
  const std::array<std::span<float>, 1> states{momentum};
  std::vector<float> losses;
  for (int step = 1; step <= setup_.steps; ++step) {
    network.forward({images_});
    losses.push_back(evaluate_losses(network));
    network.plan().backward(nullptr);
    optimizer.update({.weights = network.parameters(),
                      .gradients = network.gradients(),
                      .states = states,
                      .lr = setup_.lr,
                      .step = step},
                     {0, network.parameters().size()});
  }
  EXPECT_LT(losses.back(), losses.front());
  near("losses", losses);
  near("trained", network.parameters());
  near("trained_state", network.buffers());
}

}  // namespace millrace::trainer
