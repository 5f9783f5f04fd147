// ParameterTable: where each parameter lies in the model's one flat buffer.
//
// Parameters, their gradients and each optimizer state are flat float32 buffers of the same layout,
// in reverse layer order (the last layer first), so that gradients become ready front to back
// during backward and an all-reduce bucket is a slice. Each parameter starts at a multiple of 16
// floats; the gaps are zero. A model's buffers (what is kept beside the parameters: batch norm's
// running statistics) have a table of their own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace millrace::trainer {

struct Parameter {
  std::string name;                 ///< torchvision's: "layer1.0.conv1.weight"
  std::vector<std::int64_t> shape;  ///< PyTorch's order: (O, I, H, W), (O, I), (C)
  std::size_t offset = 0;           ///< in floats, a multiple of 16
  std::size_t size = 0;             ///< in floats, without padding
  bool decay = true;                ///< false for biases and norms: what "no decay" leaves out
  /// Names under which further layers use it: tied weights.
  std::vector<std::string> aliases = {};
};

/// "layer1.0.conv1" of "layer1.0.conv1.weight".
std::string layer_of(std::string_view parameter);

class ParameterTable {
 public:
  /// Adds one at the end; returns its index. Throws: InvalidArgument for a name that is taken.
  std::size_t add(std::string name, std::vector<std::int64_t> shape, bool decay);

  /// Says that `name` is the parameter at `index` too. Throws: InvalidArgument for a name that is
  /// taken.
  void add_alias(std::size_t index, std::string name);

  const std::vector<Parameter>& entries() const { return entries_; }
  /// The model's last layer: what a new task replaces. That of the first entry, unless set.
  std::string head() const;
  void set_head(std::string layer) { head_ = std::move(layer); }
  /// By its name or an alias; null where there is none.
  const Parameter* find(std::string_view name) const;
  /// Floats in a flat buffer, padding included; a multiple of 16.
  std::size_t padded_size() const { return padded_size_; }
  /// Values without padding: the count that people quote.
  std::size_t num_values() const;
  /// What the count would be if every alias were a parameter of its own.
  std::size_t num_untied_values() const;

 private:
  std::vector<Parameter> entries_;
  std::size_t padded_size_ = 0;
  std::string head_;
};

}  // namespace millrace::trainer
