// LitData: index.json lists chunks of items and, as one configuration, what the values of an item
// are: their formats, and the tree of dicts and lists whose leaves they are. An item is the values'
// sizes, then the values.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <utility>

#include "io/base/error.h"
#include "io/base/json.h"
#include "io/base/text.h"
#include "tools/create/chunked_records.h"
#include "tools/create/formats/formats.h"
#include "tools/create/record_source.h"
#include "tools/create/record_values.h"
#include "tools/parse.h"

namespace millrace::tools {
namespace {

// Both lists number types as LitData does; what is empty is refused.
constexpr std::array<std::string_view, 20> kTorchTypes = {
    "float32", "float32", "float64", "float64",  "",      "",     "",
    "",        "float16", "float16", "bfloat16", "uint8", "int8", "int16",
    "int16",   "int32",   "int32",   "int64",    "int64", "bool"};
constexpr std::array<std::string_view, 14> kNumpyTypes = {
    "int8",   "int16",   "int32",   "int64",   "uint8", "uint16", "uint32",
    "uint64", "float16", "float32", "float64", "",      "",       "bool"};

NumberType listed_type(std::span<const std::string_view> types, std::uint64_t number) {
  if (number >= types.size() || types[number].empty())
    throw Error(ErrorCode::kUnsupported, fmt::format("an array of LitData's type {}", number));
  return number_type(types[number]);
}

/// [type: 4][rank: 4][sizes: 4 each][values].
RecordValue headed_array(std::span<const std::string_view> types, const io::Bytes& data) {
  const std::string_view text = data.text();
  if (text.size() < 8 || u32_at(text, 4) > (text.size() - 8) / 4)
    throw Error(ErrorCode::kCorrupt, "an array without its shape");
  std::vector<std::uint64_t> shape(u32_at(text, 4));
  for (std::size_t i = 0; i < shape.size(); ++i) shape[i] = u32_at(text, 8 + 4 * i);
  const std::size_t head = 8 + 4 * shape.size();
  return RecordValue::of(
      npy_file(listed_type(types, u32_at(text, 0)), shape, data.slice(head, data.size() - head)));
}

/// Values of one axis, whose type the format names behind a colon.
RecordValue flat_array(std::span<const std::string_view> types, std::string_view type,
                       const io::Bytes& data) {
  const std::int64_t number = number_or_zero(type);
  const NumberType own =
      listed_type(types, static_cast<std::uint64_t>(std::max<std::int64_t>(0, number)));
  return RecordValue::of(npy_file(own, {data.size() / own.bytes}, data));
}

RecordValue litdata_value(std::string_view format, const io::Bytes& data) {
  const std::size_t colon = std::min(format.find(':'), format.size());
  const std::string_view name = format.substr(0, colon);
  const std::string_view detail = format.substr(std::min(colon + 1, format.size()));
  if (name == "int") return RecordValue::of(number_value({'i', 8}, data.text()));
  if (name == "float") return RecordValue::of(number_value({'f', 8}, data.text()));
  if (name == "bool") return RecordValue::of(number_value({'b', 1}, data.text()));
  if (name == "str" || name == "text") return RecordValue::of(text_value(data.text()));
  if (name == "json") return RecordValue::of(parse_json<RecordJson>(data.text(), "json"));
  if (name == "pil") return RecordValue::of(pil_file(data));
  if (name == "jpeg_array") return jpeg_list(data);
  if (name == "tensor") return headed_array(kTorchTypes, data);
  if (name == "numpy") return headed_array(kNumpyTypes, data);
  if (name == "no_header_tensor") return flat_array(kTorchTypes, detail, data);
  if (name == "no_header_numpy") return flat_array(kNumpyTypes, detail, data);
  if (name == "pickle" || name == "graph")
    throw Error(ErrorCode::kUnsupported,
                "a pickle, which could run anything: pickles are not read");
  // All others are files, with their suffix behind the colon or known by their kind.
  // `bytes` never become a text, which some of them may look like.
  const std::string suffix = name == "jpeg"       ? "jpg"
                             : name == "bytes"    ? "bin"
                             : name == "tifffile" ? "tiff"
                                                  : std::string(detail);
  return RecordValue::of(RecordFile{.data = data, .suffix = suffix});
}

/// The names of the leaves of `spec`, in order: "image", "meta.size", "0".
void add_leaf_names(const RecordJson& spec, const std::string& prefix,
                    std::vector<std::string>& names) {
  if (!spec.is_object() || !spec.contains("children_spec") || !spec["children_spec"].is_array())
    throw Error(ErrorCode::kCorrupt, "no tree of values");
  const RecordJson& children = spec["children_spec"];
  if (spec.contains("type") && spec["type"].is_null()) {
    names.push_back(prefix.empty() ? "value" : prefix);
    return;
  }
  RecordJson keys;
  if (spec.contains("context") && spec["context"].is_string())
    keys = parse_json<RecordJson>(spec["context"].get_ref<const std::string&>(), "context");
  for (std::size_t i = 0; i < children.size(); ++i) {
    std::string name = std::to_string(i);
    if (keys.is_array() && i < keys.size())
      name = keys[i].is_string() ? keys[i].get<std::string>() : keys[i].dump();
    add_leaf_names(children[i], prefix.empty() ? name : prefix + "." + name, names);
  }
}

class LitRecords final : public ChunkedRecords {
 public:
  explicit LitRecords(const std::string& folder)
      : ChunkedRecords(folder, {.item = "item", .value = "value"}) {
    const std::string index = (std::filesystem::path(folder) / "index.json").string();
    if (!std::filesystem::is_regular_file(index))
      throw Error(ErrorCode::kInvalidArgument, folder + " has no index.json");
    open(index, [this](const RecordJson& found) { read_index(found); });
  }

 private:
  RecordValue value_of(const std::string& format, const io::Bytes& data) const override {
    return litdata_value(format, data);
  }

  void read_index(const RecordJson& index) {
    if (!index.is_object() || !index.contains("chunks") || !index["chunks"].is_array() ||
        !index.contains("config") || !index["config"].is_object())
      throw Error(ErrorCode::kCorrupt, "not an index of LitData's: it has no chunks and config");
    read_config(index["config"]);
    for (const RecordJson& chunk : index["chunks"]) take_chunk(chunk);
  }

  void read_config(const RecordJson& config) {
    const auto at = [&](const char* name) {
      return config.contains(name) ? config[name] : RecordJson();
    };
    if (!at("encryption").is_null()) throw Error(ErrorCode::kUnsupported, "encrypted chunks");
    if (const RecordJson loader = at("item_loader"); loader.is_string() && loader != "PyTreeLoader")
      throw Error(ErrorCode::kUnsupported,
                  "chunks of the loader " + printable(loader.dump()) + "; PyTreeLoader's are read");
    const RecordJson formats = at("data_format");
    const RecordJson spec = at("data_spec");
    if (!formats.is_array() || formats.empty() || !spec.is_string())
      throw Error(ErrorCode::kCorrupt, "it does not say what the values are");
    std::vector<std::string> encodings;
    for (const RecordJson& format : formats)
      encodings.push_back(format.is_string() ? format.get<std::string>() : format.dump());
    packing_ = at("compression").is_null() ? Packing::kPlain : Packing::kPacked;
    const auto tree = parse_json<RecordJson>(spec.get_ref<const std::string&>(), "data_spec");
    std::vector<std::string> names;
    add_leaf_names(tree.is_array() && tree.size() == 2 ? tree[1] : tree, "", names);
    auto sorted = names;
    std::sort(sorted.begin(), sorted.end());
    if (names.size() != encodings.size() ||
        std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end())
      throw Error(ErrorCode::kCorrupt, "the values' names and formats differ in number");
    std::vector<std::uint64_t> sizes(names.size(), 0);
    set_columns(std::move(names), std::move(encodings), std::move(sizes));
  }

  void take_chunk(const RecordJson& chunk) {
    if (!chunk.is_object() || !chunk.contains("filename") || !chunk["filename"].is_string() ||
        !chunk.contains("chunk_size"))
      throw Error(ErrorCode::kCorrupt, "a chunk without a file or size");
    ItemChunk added{.path = path_inside(folder(), chunk["filename"].get<std::string>()),
                    .packing = packing_,
                    .count = json_integer<std::uint32_t>(chunk["chunk_size"], "chunk_size")};
    if (!std::filesystem::is_regular_file(added.path))
      throw Error(ErrorCode::kNotFound, "no file is " + added.path);
    add_chunk(std::move(added));
  }

  Packing packing_ = Packing::kPlain;
};

}  // namespace

std::unique_ptr<SampleSource> open_litdata_source(const SourceRequest& request) {
  return open_record_source(std::make_unique<LitRecords>(request.paths.front()), request);
}

}  // namespace millrace::tools
