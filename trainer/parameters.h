// ParameterTable: where each parameter lies in the model's one flat buffer.
//
// Parameters, their gradients and each optimizer state are flat float32 buffers of the same layout,
// in reverse layer order (the last layer first), so that gradients become ready front to back
// during backward and an all-reduce bucket is a slice. Each parameter starts at a multiple of 16
// floats; the gaps are zero. A model's buffers (batch norm's running statistics) have a table of
// their own.
//
// Threads: as a value.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace millrace::trainer {

/// Where an update leaves a parameter's values: one that would be outside is set to the bound.
struct ParameterBounds {
  float least = 0.0F;
  float most = 0.0F;
};

struct Parameter {
  std::string name;                 ///< torchvision's: "layer1.0.conv1.weight"
  std::vector<std::int64_t> shape;  ///< PyTorch's order: (O, I, H, W), (O, I), (C)
  std::size_t offset = 0;           ///< in floats, a multiple of 16
  std::size_t size = 0;             ///< in floats, without padding
  bool decay = true;                ///< false for biases and norms, which may go without decay
  /// Names under which further layers use it (tied weights).
  std::vector<std::string> aliases = {};
  /// Of an embedding of positions, (1, 1 + height * width, C), else 0: weights of another grid are
  /// resized to it when they are loaded.
  std::int64_t grid_height = 0;
  std::int64_t grid_width = 0;
  std::optional<ParameterBounds> bounds = {};
};

/// "layer1.0.conv1" of "layer1.0.conv1.weight".
std::string layer_of(std::string_view parameter);

class ParameterTable {
 public:
  /// Adds a parameter at the end and returns its index. Throws: InvalidArgument for a name in use.
  std::size_t add(std::string name, std::vector<std::int64_t> shape, bool decay);

  /// Makes `name` another name of the parameter at `index`. Throws: InvalidArgument for a name in
  /// use.
  void add_alias(std::size_t index, std::string name);

  /// Of the parameter at `index`: see Parameter::grid_height.
  void set_grid(std::size_t index, std::int64_t height, std::int64_t width) {
    entries_.at(index).grid_height = height;
    entries_.at(index).grid_width = width;
  }

  void set_bounds(std::size_t index, const ParameterBounds& bounds) {
    entries_.at(index).bounds = bounds;
  }

  const std::vector<Parameter>& entries() const { return entries_; }
  /// The model's last layer, which a new task replaces: that of the first entry, unless set.
  std::string head() const;
  void set_head(std::string layer) { head_ = std::move(layer); }
  /// By its name or an alias; null if there is none. Lifetime: until the table changes.
  const Parameter* find(std::string_view name) const;
  /// Floats in a flat buffer, padding included; a multiple of 16.
  std::size_t padded_size() const { return padded_size_; }
  /// Values without padding: a model's number of parameters.
  std::size_t num_values() const;
  /// What num_values() would be if every alias were a parameter of its own.
  std::size_t num_untied_values() const;

 private:
  std::vector<Parameter> entries_;
  std::size_t padded_size_ = 0;
  std::string head_;
};

}  // namespace millrace::trainer
