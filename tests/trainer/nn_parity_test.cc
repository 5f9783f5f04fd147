// The models beside PyTorch: the same weights and batch give the same logits, loss, gradients and
// running statistics. Skipped where python3 has no torch (apt install python3-torchvision).
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <numeric>

#include "tests/support/temp_dir.h"
#include "tests/trainer/nn_support.h"
#include "trainer/models/models.h"

namespace millrace::trainer {
namespace {

using testing::TempDir;
using nn::Mode;
using nn::Precision;

constexpr const char* kPython = "/usr/bin/python3";

bool has_torch() {
  return std::system("/usr/bin/python3 -c 'import torch, torchvision' 2>/dev/null") == 0;
}

template <typename T>
void write(const std::string& path, std::span<const T> values) {
  testing::write_file(path,
                      {reinterpret_cast<const char*>(values.data()), values.size_bytes()});
}

std::vector<float> read(const std::string& path) {
  const std::string bytes = testing::read_file(path);
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

std::string table_text(const ParameterTable& table) {
  std::string text;
  for (const Parameter& entry : table.entries()) {
    text += entry.name + ' ' + std::to_string(entry.offset) + ' ' + std::to_string(entry.size);
    for (const std::int64_t dim : entry.shape) text += ' ' + std::to_string(dim);
    text += '\n';
  }
  return text;
}

struct Setup {
  std::string model;
  ModelOptions options;
  std::int64_t batch = 4;
  float smoothing = 0;
};

struct Tolerance {
  double logits;
  double gradients;  // of all together
  double layer;      // of the worst parameter
};

class Comparison {
 public:
  Comparison(const Setup& setup, Precision precision)
      : setup_(setup),
        network_(build_model(setup.model, setup.options),
                 {.batch_size = setup.batch, .precision = precision}, 11),
        images_(random_values(static_cast<std::size_t>(setup.batch * setup.options.in_channels *
                                                       setup.options.image.height *
                                                       setup.options.image.width),
                              3)),
        labels_(static_cast<std::size_t>(setup.batch)) {
    std::iota(labels_.begin(), labels_.end(), 1);
    // A batch norm that starts at (1, 0) would hide a mix-up.
    for (const Parameter& entry : network_.graph().parameters().entries()) {
      if (entry.decay) continue;
      const auto noise = random_values(entry.size, entry.offset);
      for (std::size_t i = 0; i < entry.size; ++i) {
        network_.parameters()[entry.offset + i] += 0.1F * noise[i];
      }
    }
  }

  void run(const Tolerance& tolerance) {
    ask_pytorch();
    const auto labels = std::span<const std::int64_t>(labels_);
    const std::vector<std::uint8_t> valid(labels_.size(), 1);
    const nn::OutputView logits = network_.forward({images_});
    EXPECT_LT(relative_error(logits.data, read(folder_ / "logits.bin")), tolerance.logits);
    const auto loss = make_loss("cross_entropy", {.label_smoothing = setup_.smoothing});
    const double divisor = static_cast<double>(setup_.batch);
    const LossSums sums =
        loss->evaluate({.prediction = logits,
                        .target = {.labels = labels},
                        .valid = valid,
                        .divisor = divisor,
                        .gradient = network_.plan().output_gradient(0).data});
    EXPECT_NEAR(sums.loss / divisor, static_cast<double>(read(folder_ / "loss.bin")[0]),
                tolerance.logits * 4);
    network_.plan().backward(nullptr);
    compare_gradients(tolerance);
    EXPECT_LT(relative_error(network_.state(), read(folder_ / "state_after.bin")),
              tolerance.logits);
    EXPECT_LT(relative_error(network_.forward({images_}, Mode::kEvaluate).data,
                             read(folder_ / "evaluated.bin")),
              tolerance.logits * 2);
  }

 private:
  void ask_pytorch() {
    const auto image = setup_.options.image;
    testing::write_file(folder_ / "shape",
                        std::to_string(setup_.batch) + ' ' + std::to_string(image.height) + ' ' +
                            std::to_string(image.width) + ' ' +
                            std::to_string(setup_.options.in_channels) + ' ' +
                            std::to_string(setup_.options.num_classes) + ' ' +
                            std::to_string(setup_.smoothing));
    testing::write_file(folder_ / "parameters", table_text(network_.graph().parameters()));
    testing::write_file(folder_ / "state", table_text(network_.graph().state()));
    write<float>(folder_ / "weights.bin", network_.parameters());
    write<float>(folder_ / "state.bin", network_.state());
    write<float>(folder_ / "images.bin", images_);
    write<std::int64_t>(folder_ / "labels.bin", labels_);
    const bool small_stem = setup_.options.stem == Stem::k3x3;
    const std::string command = std::string(kPython) + " tests/trainer/nn_parity.py " +
                                setup_.model + (small_stem ? "-3x3 " : " ") +
                                folder_.path().string();
    ASSERT_EQ(std::system(command.c_str()), 0) << command;
  }

  void compare_gradients(const Tolerance& tolerance) {
    const std::vector<float> expected = read(folder_ / "gradients.bin");
    EXPECT_LT(relative_error(network_.gradients(), expected), tolerance.gradients);
    for (const Parameter& entry : network_.graph().parameters().entries()) {
      const auto ours = network_.gradient(entry.name);
      const auto theirs = std::span(expected).subspan(entry.offset, entry.size);
      EXPECT_LT(relative_error(ours, theirs), tolerance.layer) << entry.name;
    }
  }

  Setup setup_;
  Network network_;
  std::vector<float> images_;
  std::vector<std::int64_t> labels_;
  TempDir folder_;
};

void compare(const Setup& setup, Precision precision, const Tolerance& tolerance) {
  if (!has_torch()) GTEST_SKIP() << "python3 has no torch";
  Comparison(setup, precision).run(tolerance);
}

constexpr Tolerance kFloat32 = {1e-4, 1e-4, 1e-3};
constexpr Tolerance kBFloat16 = {2e-2, 3e-2, 5e-2};

const Setup kLeNet = {
    "lenet", {.num_classes = 10, .in_channels = 1, .image = 28}, 8, 0.1F};
const Setup kResNet18 = {"resnet18", {.num_classes = 10, .image = 64}};
const Setup kResNet18Small = {
    "resnet18", {.num_classes = 10, .image = 16, .stem = Stem::k3x3}, 8};

TEST(Parity, LeNetInFloat32) { compare(kLeNet, Precision::kFloat32, kFloat32); }
TEST(Parity, LeNetInBFloat16) { compare(kLeNet, Precision::kBFloat16, kBFloat16); }
TEST(Parity, ResNet18InFloat32) { compare(kResNet18, Precision::kFloat32, kFloat32); }
TEST(Parity, ResNet18InBFloat16) { compare(kResNet18, Precision::kBFloat16, kBFloat16); }
TEST(Parity, ResNet18SmallStemInFloat32) {
  compare(kResNet18Small, Precision::kFloat32, kFloat32);
}
TEST(Parity, ResNet18SmallStemInBFloat16) {
  compare(kResNet18Small, Precision::kBFloat16, kBFloat16);
}

}  // namespace
}  // namespace millrace::trainer
