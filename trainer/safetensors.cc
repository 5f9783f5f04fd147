#include "trainer/safetensors.h"

#include <Eigen/Core>
#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "io/base/error.h"
#include "io/base/json.h"

namespace millrace::trainer {
namespace {

static_assert(std::endian::native == std::endian::little, "the format is little endian");

using Json = nlohmann::json;

constexpr std::size_t kLengthBytes = 8;
constexpr std::size_t kHeaderDepth = 3;     // the header, a tensor, its shape
constexpr std::size_t kMaxNameBytes = 512;  // every fault repeats it
constexpr std::size_t kDataAlignment = 64;
/// Read at a time from a TensorView with `read`.
constexpr std::size_t kPieceBytes = std::size_t{4} << 20;
constexpr std::array<std::pair<std::string_view, std::size_t>, 4> kTypes{
    {{"F32", 4}, {"BF16", 2}, {"F16", 2}, {"I64", 8}}};

[[noreturn]] void corrupt_file(const std::string& message) {
  throw Error(ErrorCode::kCorrupt, "safetensors: " + message);
}

TensorType parse_type(const std::string& tensor, const std::string& name) {
  for (std::size_t i = 0; i < kTypes.size(); ++i) {
    if (kTypes[i].first == name) return static_cast<TensorType>(i);
  }
  throw Error(ErrorCode::kUnsupported,
              "safetensors: tensor " + tensor + " has dtype " + name.substr(0, kMaxNameBytes));
}

Json parse_header(std::string_view text) {
  Json header = parse_json<Json>(text, "safetensors header",
                                 {.bytes = kMaxSafetensorsHeader, .depth = kHeaderDepth});
  if (!header.is_object()) corrupt_file("header is not an object");
  return header;
}

std::uint64_t unsigned_value(const Json& value, const std::string& tensor) {
  return json_integer<std::uint64_t>(value, "safetensors: tensor " + tensor + ": a number");
}

// One header entry, checked by itself.
struct Claim {
  std::string name;
  TensorType type;
  std::vector<std::int64_t> shape;
  std::size_t begin;
  std::size_t end;
};

std::vector<std::int64_t> parse_shape(const std::string& name, const Json& dims) {
  if (!dims.is_array() || dims.size() > 16) corrupt_file("tensor " + name + " has a bad shape");
  std::vector<std::int64_t> shape;
  for (const Json& dim : dims) {
    const std::uint64_t size = unsigned_value(dim, name);
    if (size > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
      corrupt_file("tensor " + name + " has a dimension of " + std::to_string(size));
    }
    shape.push_back(static_cast<std::int64_t>(size));
  }
  return shape;
}

// Bytes of a tensor of that shape; nullopt if they exceed `limit`.
std::optional<std::size_t> shape_bytes(const Claim& claim, std::size_t limit) {
  std::size_t bytes = tensor_type_size(claim.type);
  if (std::find(claim.shape.begin(), claim.shape.end(), 0) != claim.shape.end()) return 0;
  for (const std::int64_t dim : claim.shape) {
    const auto size = static_cast<std::size_t>(dim);
    if (bytes > limit / size) return std::nullopt;
    bytes *= size;
  }
  return bytes;
}

Claim parse_claim(const std::string& name, const Json& entry, std::size_t data_bytes) {
  if (name.size() > kMaxNameBytes) {
    corrupt_file("a tensor's name has " + std::to_string(name.size()) + " bytes");
  }
  const bool whole = entry.is_object() && entry.size() == 3 && entry.contains("dtype") &&
                     entry["dtype"].is_string() && entry.contains("shape") &&
                     entry.contains("data_offsets") && entry["data_offsets"].is_array() &&
                     entry["data_offsets"].size() == 2;
  if (!whole) corrupt_file("tensor " + name + " lacks dtype, shape or data_offsets");
  Claim claim{name, parse_type(name, entry["dtype"].get<std::string>()),
              parse_shape(name, entry["shape"]), unsigned_value(entry["data_offsets"][0], name),
              unsigned_value(entry["data_offsets"][1], name)};
  if (claim.begin > claim.end) corrupt_file("tensor " + name + " ends before it begins");
  if (claim.end > data_bytes) {
    throw Error(ErrorCode::kTruncated, "safetensors: tensor " + name + " ends at byte " +
                                           std::to_string(claim.end) + " of " +
                                           std::to_string(data_bytes));
  }
  if (shape_bytes(claim, data_bytes) != claim.end - claim.begin) {
    corrupt_file("tensor " + name + " has another size than its shape");
  }
  return claim;
}

std::map<std::string, std::string> parse_metadata(const Json& entry) {
  std::map<std::string, std::string> metadata;
  if (!entry.is_object()) corrupt_file("__metadata__ is not an object");
  for (const auto& [key, value] : entry.items()) {
    if (!value.is_string()) corrupt_file("__metadata__ holds something that is not text");
    metadata[key] = value.get<std::string>();
  }
  return metadata;
}

// The tensors must tile the data exactly.
void check_tiling(std::vector<Claim>& claims, std::size_t data_bytes) {
  std::sort(claims.begin(), claims.end(), [](const Claim& a, const Claim& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  std::size_t at = 0;
  for (const Claim& claim : claims) {
    if (claim.begin < at) corrupt_file("tensor " + claim.name + " overlaps another");
    if (claim.begin > at) corrupt_file("there is a hole before tensor " + claim.name);
    at = claim.end;
  }
  if (at != data_bytes) corrupt_file("there are bytes after the last tensor");
}

std::size_t header_length(const io::Bytes& file) {
  if (file.size() < kLengthBytes) throw Error(ErrorCode::kTruncated, "safetensors: no header");
  std::uint64_t length = 0;
  std::memcpy(&length, file.data(), kLengthBytes);
  if (length > kMaxSafetensorsHeader) {
    corrupt_file("header claims " + std::to_string(length) + " bytes");
  }
  if (length > file.size() - kLengthBytes) {
    throw Error(ErrorCode::kTruncated, "safetensors: header claims " + std::to_string(length) +
                                           " bytes, the file has " + std::to_string(file.size()));
  }
  return static_cast<std::size_t>(length);
}

// Tensors in other programs' files may be unaligned: values are copied before they are converted.
template <typename From>
void convert_all(const io::Bytes& data, std::span<float> into) {
  constexpr std::size_t kBlock = 1024;
  Eigen::Array<From, kBlock, 1> block;
  for (std::size_t at = 0; at < into.size(); at += kBlock) {
    const std::size_t count = std::min(kBlock, into.size() - at);
    std::memcpy(static_cast<void*>(block.data()), data.data() + at * sizeof(From),
                count * sizeof(From));
    const auto size = static_cast<Eigen::Index>(count);
    Eigen::Map<Eigen::ArrayXf>(into.data() + at, size) = block.head(size).template cast<float>();
  }
}

std::size_t bytes_of(const TensorView& tensor) {
  std::size_t values = 1;
  for (const std::int64_t dim : tensor.shape) values *= static_cast<std::size_t>(dim);
  return values * tensor_type_size(tensor.type);
}

std::string compose_header(std::span<const TensorView> tensors,
                           const std::map<std::string, std::string>& metadata) {
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  std::size_t at = 0;
  for (const TensorView& tensor : tensors) {
    header[tensor.name] = {{"dtype", tensor_type_name(tensor.type)},
                           {"shape", tensor.shape},
                           {"data_offsets", {at, at + bytes_of(tensor)}}};
    at += bytes_of(tensor);
  }
  std::string text = header.dump();
  const std::size_t whole = kLengthBytes + text.size();
  text.append((kDataAlignment - whole % kDataAlignment) % kDataAlignment, ' ');
  return text;
}

void write_data(io::ByteSink& sink, const TensorView& tensor) {
  if (!tensor.read) return sink.write(tensor.data);
  const std::size_t size = bytes_of(tensor);
  std::vector<std::byte> piece(std::min(size, kPieceBytes));
  for (std::size_t at = 0; at < size; at += piece.size()) {
    const std::span<std::byte> part = std::span(piece).first(std::min(piece.size(), size - at));
    tensor.read(at, part);
    sink.write(part);
  }
}

}  // namespace

std::size_t tensor_type_size(TensorType type) {
  return kTypes[static_cast<std::size_t>(type)].second;
}

std::string_view tensor_type_name(TensorType type) {
  return kTypes[static_cast<std::size_t>(type)].first;
}

void Tensor::copy_to(std::span<float> into) const {
  if (num_values() != into.size()) {
    throw Error(ErrorCode::kInvalidArgument, "a tensor of " + std::to_string(num_values()) +
                                                 " values does not fit into " +
                                                 std::to_string(into.size()));
  }
  switch (type) {
    case TensorType::kFloat32:
      if (!into.empty()) std::memcpy(into.data(), data.data(), data.size());
      return;
    case TensorType::kBFloat16:
      return convert_all<Eigen::bfloat16>(data, into);
    case TensorType::kFloat16:
      return convert_all<Eigen::half>(data, into);
    case TensorType::kInt64:
      return convert_all<std::int64_t>(data, into);
  }
}

const Tensor& Safetensors::at(std::string_view name) const {
  const auto found = tensors.find(name);
  if (found == tensors.end()) {
    throw Error(ErrorCode::kNotFound, "safetensors: there is no tensor " + std::string(name));
  }
  return found->second;
}

Safetensors parse_safetensors(const io::Bytes& file) {
  const std::size_t length = header_length(file);
  const Json header = parse_header(file.slice(kLengthBytes, length).text());
  const std::size_t data_at = kLengthBytes + length;
  const std::size_t data_bytes = file.size() - data_at;
  Safetensors result;
  std::vector<Claim> claims;
  for (const auto& [name, entry] : header.items()) {
    if (name == "__metadata__") {
      result.metadata = parse_metadata(entry);
    } else {
      claims.push_back(parse_claim(name, entry, data_bytes));
    }
  }
  check_tiling(claims, data_bytes);
  for (Claim& claim : claims) {
    io::Bytes data = file.slice(data_at + claim.begin, claim.end - claim.begin);
    result.tensors[claim.name] = {claim.type, std::move(claim.shape), std::move(data)};
  }
  return result;
}

void write_safetensors(io::ByteSink& sink, std::span<const TensorView> tensors,
                       const std::map<std::string, std::string>& metadata) {
  const std::string header = compose_header(tensors, metadata);
  const std::uint64_t length = header.size();
  sink.write(std::as_bytes(std::span(&length, 1)));
  sink.write(std::as_bytes(std::span(header)));
  for (const TensorView& tensor : tensors) write_data(sink, tensor);
}

}  // namespace millrace::trainer
