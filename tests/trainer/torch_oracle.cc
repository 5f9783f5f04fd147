#include "tests/trainer/torch_oracle.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>

namespace millrace::testing {
namespace {

int run(const std::string& command) { return std::system(command.c_str()); }

bool have_torch() {
  static const bool found = run("/usr/bin/python3 -c 'import torch' >/dev/null 2>&1") == 0;
  return found;
}

}  // namespace

bool have_torchvision() {
  static const bool found = run("/usr/bin/python3 -c 'import torch, torchvision' 2>/dev/null") == 0;
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
  if (!have_torch()) return std::nullopt;
  const TempDir folder;
  write_file(folder / "script.py", "import torch\ntorch.set_num_threads(1)\n" + script);
  const std::string out = folder / "out";
  if (run("/usr/bin/python3 " + (folder / "script.py") + " > " + out) != 0) return std::nullopt;
  std::ifstream file(out);
  std::vector<double> numbers;
  for (double number = 0; file >> number;) numbers.push_back(number);
  return numbers;
}

}  // namespace millrace::testing
