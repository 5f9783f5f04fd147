// The models beside PyTorch: the same weights and batch give the same logits, loss, gradients and
// running statistics. Skipped where python3 has no torch (apt install python3-torchvision).
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <numeric>

#include "tests/support/temp_dir.h"
#include "tests/trainer/nn_support.h"
#include "trainer/models/models.h"

namespace millrace::trainer {
namespace {

using nn::Mode;
using nn::Precision;
using testing::TempDir;

constexpr const char* kPython = "/usr/bin/python3";

bool has_torch() {
  return std::system("/usr/bin/python3 -c 'import torch, torchvision' 2>/dev/null") == 0;
}

template <typename T>
void write(const std::string& path, std::span<const T> values) {
  testing::write_file(path, {reinterpret_cast<const char*>(values.data()), values.size_bytes()});
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
  std::uint64_t seed = 4;
};

class Comparison {
 public:
  explicit Comparison(const Setup& setup)
      : setup_(setup),
        images_(random_values(
            static_cast<std::size_t>(setup.batch * setup.options.in_channels *
                                     setup.options.image.height * setup.options.image.width),
            setup.seed)),
        labels_(static_cast<std::size_t>(setup.batch)) {
    std::iota(labels_.begin(), labels_.end(), 1);
    ask_pytorch();
  }

  // What rounding does to PyTorch itself, beside its float64, bounds what it may do to us: near a
  // kink of a ReLU or a tie of a max-pool the last bit decides, and a deep net has thousands.
  void run(Precision precision) {
    half_ = precision == Precision::kBFloat16;
    Network network = make(precision);
    const nn::OutputView logits = network.forward({images_});
    near("logits", logits.data);
    near("loss", std::vector<float>{evaluate_loss(network, logits)});
    network.plan().backward(nullptr);
    near("gradients", network.gradients());
    if (!half_) compare_each_gradient(network);
    near("state_after", network.state());
    near("evaluated", network.forward({images_}, Mode::kEvaluate).data);
  }

 private:
  static constexpr double kFloat32 = 1e-4;
  static constexpr double kBFloat16 = 2e-2;
  static constexpr double kSlack = 2.5;  // which bits fall is luck

  Network make(Precision precision) const {
    Network network(build_model(setup_.model, setup_.options),
                    {.batch_size = setup_.batch, .precision = precision}, 11);
    // A batch norm that starts at (1, 0) would hide a mix-up.
    for (const Parameter& entry : network.graph().parameters().entries()) {
      if (entry.decay) continue;
      const auto noise = random_values(entry.size, entry.offset);
      for (std::size_t i = 0; i < entry.size; ++i) {
        network.parameters()[entry.offset + i] += 0.1F * noise[i];
      }
    }
    return network;
  }

  void near(const std::string& what, std::span<const float> ours) const {
    const std::vector<float> exact = read(folder_ / (what + ".bin"));
    const std::vector<float> rounded =
        read(folder_ / ((half_ ? "half_" : "single_") + what + ".bin"));
    const double tolerance =
        std::max(half_ ? kBFloat16 : kFloat32, kSlack * relative_error(rounded, exact));
    EXPECT_LT(relative_error(ours, exact), tolerance) << what << (half_ ? " bf16" : " fp32");
  }
  void near(const std::string& what, const std::vector<float>& ours) const {
    near(what, std::span<const float>(ours));
  }

  float evaluate_loss(Network& network, const nn::OutputView& logits) const {
    const auto loss = make_loss("cross_entropy", {.label_smoothing = setup_.smoothing});
    const std::vector<std::uint8_t> valid(labels_.size(), 1);
    const double divisor = static_cast<double>(setup_.batch);
    const LossSums sums = loss->evaluate({.prediction = logits,
                                          .target = {.labels = labels_},
                                          .valid = valid,
                                          .divisor = divisor,
                                          .gradient = network.plan().output_gradient(0).data});
    return static_cast<float>(sums.loss / divisor);
  }

  void compare_each_gradient(Network& network) const {
    const std::vector<float> exact = read(folder_ / "gradients.bin");
    const std::vector<float> rounded = read(folder_ / "single_gradients.bin");
    for (const Parameter& entry : network.graph().parameters().entries()) {
      const auto part = [&](const std::vector<float>& flat) {
        return std::span(flat).subspan(entry.offset, entry.size);
      };
      const double theirs = relative_error(part(rounded), part(exact));
      EXPECT_LT(relative_error(network.gradient(entry.name), part(exact)),
                std::max(5e-3, kSlack * theirs))
          << entry.name;
    }
  }

  void ask_pytorch() {
    Network network = make(Precision::kFloat32);
    const auto& options = setup_.options;
    std::string shape;
    for (const std::int64_t size : {setup_.batch, options.image.height, options.image.width,
                                    options.in_channels, options.num_classes}) {
      shape += std::to_string(size) + ' ';
    }
    testing::write_file(folder_ / "shape", shape + std::to_string(setup_.smoothing));
    testing::write_file(folder_ / "parameters", table_text(network.graph().parameters()));
    testing::write_file(folder_ / "state", table_text(network.graph().state()));
    write<float>(folder_ / "weights.bin", network.parameters());
    write<float>(folder_ / "state.bin", network.state());
    write<float>(folder_ / "images.bin", images_);
    write<std::int64_t>(folder_ / "labels.bin", labels_);
    const std::string command = std::string(kPython) + " tests/trainer/nn_parity.py " +
                                setup_.model + (options.stem == Stem::k3x3 ? "-3x3 " : " ") +
                                folder_.path().string();
    ASSERT_EQ(std::system(command.c_str()), 0) << command;
  }

  Setup setup_;
  std::vector<float> images_;
  std::vector<std::int64_t> labels_;
  TempDir folder_;
  bool half_ = false;
};

void compare(const Setup& setup) {
  if (!has_torch()) GTEST_SKIP() << "python3 has no torch";
  Comparison comparison(setup);
  comparison.run(Precision::kFloat32);
  comparison.run(Precision::kBFloat16);
}

TEST(Parity, LeNet) {
  compare({.model = "lenet",
           .options = {.num_classes = 10, .in_channels = 1, .image = 28},
           .batch = 8,
           .smoothing = 0.1F});
}

TEST(Parity, ResNet18) {
  compare({.model = "resnet18", .options = {.num_classes = 10, .image = 64}});
}

TEST(Parity, ResNet18WithTheSmallStem) {
  compare({.model = "resnet18",
           .options = {.num_classes = 10, .image = 16, .stem = Stem::k3x3},
           .batch = 8});
}

TEST(Parity, ResNet50) {
  compare({.model = "resnet50", .options = {.num_classes = 10, .image = 64}});
}

// Without dropout: nobody else draws our numbers.
TEST(Parity, AlexNet) {
  compare({.model = "alexnet", .options = {.num_classes = 10, .image = 64, .dropout = 0}});
}

}  // namespace
}  // namespace millrace::trainer
