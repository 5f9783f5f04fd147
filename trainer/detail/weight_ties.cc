#include "trainer/detail/weight_ties.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace millrace::trainer::detail {
namespace {

bool same_values(const Tensor& a, const Tensor& b) {
  return a.type == b.type && a.shape == b.shape &&
         std::memcmp(a.data.data(), b.data.data(), a.data.size()) == 0;
}

/// Whether all values are equal: then two equal tensors are no sign of a tie.
bool is_constant(const Tensor& tensor) {
  const std::size_t size = tensor_type_size(tensor.type);
  const std::byte* data = tensor.data.data();
  return tensor.data.size() <= size ||
         std::memcmp(data, data + size, tensor.data.size() - size) == 0;
}

const Tensor* tensor_named(const Safetensors& file, const std::string& name) {
  const auto found = file.tensors.find(name);
  return found == file.tensors.end() ? nullptr : &found->second;
}

}  // namespace

const Tensor* tensor_for(const Safetensors& file, const std::string& prefix,
                         const Parameter& entry) {
  const Tensor* tensor = tensor_named(file, prefix + entry.name);
  for (const std::string& alias : entry.aliases) {
    if (tensor == nullptr) tensor = tensor_named(file, prefix + alias);
  }
  return tensor;
}

std::vector<std::string> ties_broken_in_file(const Safetensors& file,
                                             const std::vector<FlatTensors>& into) {
  std::vector<std::string> lines;
  for (const FlatTensors& flat : into) {
    for (const Parameter& entry : flat.table->entries()) {
      const Tensor* own = tensor_for(file, flat.prefix, entry);
      for (const std::string& alias : entry.aliases) {
        const Tensor* other = tensor_named(file, flat.prefix + alias);
        if (other == nullptr || same_values(*own, *other)) continue;
        lines.push_back(flat.prefix + alias + " is tied to " + flat.prefix + entry.name +
                        " in the model and differs from it in the file");
      }
    }
  }
  return lines;
}

std::vector<std::string> ties_lost_in_model(const Safetensors& file,
                                            const std::vector<FlatTensors>& into) {
  std::vector<std::string> lines;
  std::vector<std::pair<std::string, const Tensor*>> seen;
  for (const FlatTensors& flat : into) {
    for (const Parameter& entry : flat.table->entries()) {
      const Tensor* tensor = tensor_for(file, flat.prefix, entry);
      if (tensor == nullptr || is_constant(*tensor)) continue;
      const std::string name = flat.prefix + entry.name;
      for (const auto& [other, values] : seen) {
        if (!same_values(*tensor, *values)) continue;
        lines.push_back(name + " equals " + other +
                        " in the file, as if tied, and is a parameter of its own in the model");
      }
      seen.emplace_back(name, tensor);
    }
  }
  return lines;
}

std::string ties_line(const ParameterTable& table) {
  const std::size_t untied = table.num_untied_values();
  if (untied == table.num_values()) return {};
  return fmt::format("Tied weights: {} parameters where untied layers would have {}",
                     table.num_values(), untied);
}

}  // namespace millrace::trainer::detail
