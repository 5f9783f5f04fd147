#include "tools/train/weights_file.h"

#include <algorithm>
#include <array>
#include <fstream>
#include <string_view>

#include "io/base/error.h"
#include "io/opener.h"

namespace millrace::tools {
namespace {

constexpr std::array<std::string_view, 4> kSuffixes = {".pth", ".pt", ".ckpt", ".bin"};

/// torch.save() writes a zip archive; before version 1.6 it wrote a bare pickle.
bool is_torch_content(const std::string& path) {
  std::array<char, 4> head = {};
  std::ifstream file(path, std::ios::binary);
  file.read(head.data(), head.size());
  if (file.gcount() < static_cast<std::streamsize>(head.size())) return false;
  const std::string_view bytes(head.data(), head.size());
  constexpr char kProtocol = '\x80';
  return bytes == "PK\x03\x04" || (bytes[0] == kProtocol && bytes[1] >= 2 && bytes[1] <= 5);
}

bool is_torch_name(const std::string& path) {
  const std::string name = io::printable_url(path);
  return std::any_of(kSuffixes.begin(), kSuffixes.end(),
                     [&](std::string_view suffix) { return name.ends_with(suffix); });
}

}  // namespace

void check_weights_file(const std::string& path) {
  if (!(io::is_network_url(path) ? is_torch_name(path) : is_torch_content(path))) return;
  throw Error(ErrorCode::kInvalidArgument,
              "--init " + io::printable_url(path) +
                  " is a PyTorch file, of pickled Python objects: convert it to safetensors with "
                  "torch.load() and safetensors.torch.save_file(), five lines in trainer/README.md "
                  "under 'Weights from PyTorch'");
}

}  // namespace millrace::tools
