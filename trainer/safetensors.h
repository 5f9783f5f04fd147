// Safetensors: the file format for weights.
//
// Eight bytes of header length (little endian), a JSON header (name → dtype, shape, data_offsets),
// then the data, without holes. A file is hostile until parsed: lengths, offsets, shape products,
// overlaps and duplicate names are checked before anything is allocated from them.
//
//   auto tensors = parse_safetensors(io::read_all(*source, limit));
//   tensors.at("conv1.weight").copy_to(weights);
//
// Source: the safetensors format description (github.com/huggingface/safetensors).
// Threads: functions, and values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/byte_sink.h"
#include "io/bytes.h"

namespace millrace::trainer {

enum class TensorType { kFloat32, kBFloat16, kFloat16, kInt64 };

/// Bytes of one value.
std::size_t tensor_type_size(TensorType type);
/// The format's name: "F32", "BF16", "F16", "I64".
std::string_view tensor_type_name(TensorType type);

/// One tensor, its values densely packed in little endian.
struct Tensor {
  TensorType type = TensorType::kFloat32;
  std::vector<std::int64_t> shape;
  io::Bytes data;

  std::size_t num_values() const { return data.size() / tensor_type_size(type); }
  /// Converts to float32. Throws: InvalidArgument unless sizes agree.
  void copy_to(std::span<float> into) const;
};

struct Safetensors {
  std::map<std::string, Tensor, std::less<>> tensors;
  std::map<std::string, std::string> metadata;

  /// Throws: NotFound, naming the tensor.
  const Tensor& at(std::string_view name) const;
};

/// The largest header in bytes: the format's own limit.
inline constexpr std::size_t kMaxSafetensorsHeader = 100'000'000;

/// Throws: Truncated, Corrupt, Unsupported (a dtype that is not in TensorType). The tensors share
/// `file`.
Safetensors parse_safetensors(const io::Bytes& file);

/// A tensor to be written: `data`, borrowed, or else what `read` fills in, a piece at a time.
struct TensorView {
  std::string name;
  TensorType type = TensorType::kFloat32;
  std::vector<std::int64_t> shape;
  std::span<const std::byte> data = {};
  /// Fills `into` with the tensor's bytes from `offset` on; both are multiples of 64 bytes, but for
  /// the tensor's end.
  std::function<void(std::size_t offset, std::span<std::byte> into)> read = {};
};

/// Writes the tensors in the given order, the data 64-byte aligned. Does not finish() the sink.
/// Throws: what the sink and `read` throw.
void write_safetensors(io::ByteSink& sink, std::span<const TensorView> tensors,
                       const std::map<std::string, std::string>& metadata = {});

}  // namespace millrace::trainer
