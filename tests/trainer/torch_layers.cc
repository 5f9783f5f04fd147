#include "tests/trainer/torch_layers.h"

#include <array>

namespace millrace::testing {
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
