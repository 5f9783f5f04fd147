#include "tests/trainer/torch_oracle.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>

#include "tests/support/process.h"
#include "tests/support/python_worker.h"

namespace millrace::testing {
namespace {

bool have(const std::string& module) { return has_modules("/usr/bin/python3", module); }

}  // namespace

int run_torch_script(const std::vector<std::string>& words, const std::string& out) {
  static PythonWorker worker("/usr/bin/python3", "numpy,torch,torchvision");
  return worker.run(words, out);
}

bool have_torchvision() {
  static const bool found = have("torchvision");
  return found;
}

void print_distance(const std::string& what, double error) {
  if (std::getenv("MILLRACE_PARITY_PRINT") != nullptr) {
    std::printf("%.2g %s\n", error, what.c_str());
  }
}

std::vector<float> read_floats(const std::string& path) {
  std::vector<float> values(std::filesystem::file_size(path) / sizeof(float));
  std::ifstream file(path, std::ios::binary);
  file.read(reinterpret_cast<char*>(values.data()),
            static_cast<std::streamsize>(values.size() * sizeof(float)));
  EXPECT_TRUE(file.good()) << path;
  return values;
}

std::optional<std::vector<double>> run_torch(const std::string& script) {
  if (!have_torchvision()) return std::nullopt;
  const TempDir folder;
  write_file(folder / "script.py", "import torch\ntorch.set_num_threads(1)\n" + script);
  EXPECT_EQ(0, run_torch_script({folder / "script.py"}, folder / "out")) << script;
  std::ifstream file(folder / "out");
  std::vector<double> numbers;
  for (double number = 0; file >> number;) numbers.push_back(number);
  return numbers;
}

namespace {

FILE* start(const std::string& cases) {
  const std::string command =
      "OMP_NUM_THREADS=1 /usr/bin/python3 tests/trainer/torch_layers.py " + cases;
  return ::popen(command.c_str(), "r");
}

}  // namespace

TorchLayers::TorchLayers(const std::string& cases) : pipe_(nullptr, ::pclose) {
  write_file(folder_ / "cases", cases);
  pipe_.reset(start(folder_ / "cases"));
}

std::vector<LayerTensor> TorchLayers::next() {
  std::vector<LayerTensor> tensors;
  for (LayerTensor tensor; read(tensor);) tensors.push_back(std::move(tensor));
  return tensors;
}

// "KIND NAME COUNT\n" and as many floats; a case ends with "end - 0\n".
bool TorchLayers::read(LayerTensor& tensor) {
  std::array<char, 32> kind{};
  std::array<char, 64> name{};
  std::size_t count = 0;
  const int found = std::fscanf(pipe_.get(), "%31s %63s %zu", kind.data(), name.data(), &count);
  if (found != 3 || std::fgetc(pipe_.get()) != '\n') return false;
  tensor = {kind.data(), name.data(), std::vector<float>(count)};
  const std::size_t got = std::fread(tensor.values.data(), sizeof(float), count, pipe_.get());
  return got == count && tensor.kind != "end";
}

}  // namespace millrace::testing
