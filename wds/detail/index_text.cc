#include "wds/detail/index_text.h"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <span>
#include <utility>

#include "io/base/error.h"
#include "io/base/fault_text.h"
#include "io/base/hash.h"
#include "io/base/json.h"
#include "wds/detail/plain_index.h"

namespace millrace::wds::detail {
namespace {

using Json = nlohmann::json;

constexpr int kVersion = 1;
// Limit for an index not written by write_index(): parsed as JSON it takes eight times its size.
constexpr std::size_t kMaxDocumentBytes = std::size_t{256} * 1024 * 1024;

[[noreturn]] void corrupt_index(const std::string& message) {
  throw Error(ErrorCode::kCorrupt, "index: " + message);
}

std::string hex(std::uint32_t value) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text(8, '0');
  for (std::size_t i = 8; i-- > 0; value >>= 4) text[i] = kDigits[value & 15U];
  return text;
}

std::uint32_t from_hex(const std::string& text) {
  std::uint32_t value = 0;
  const auto result = std::from_chars(text.data(), text.data() + text.size(), value, 16);
  if (text.size() != 8 || result.ptr != text.data() + 8)
    corrupt_index("'" + text + "' is not a CRC-32");
  return value;
}

std::uint64_t number(const Json& json) {
  return json_integer<std::uint64_t>(json, "index: an offset, size or count");
}

IndexedMember parse_member(const Json& json) {
  if (!json.is_array() || json.size() != 5) corrupt_index("a member has five parts");
  return {.suffix = json[0].get<std::string>(),
          .offset = number(json[1]),
          .size = number(json[2]),
          .crc32 = from_hex(json[3].get<std::string>()),
          .header_crc32 = from_hex(json[4].get<std::string>())};
}

IndexedSample parse_sample(const Json& json) {
  if (!json.is_array() || json.size() != 3 || !json[2].is_array()) {
    corrupt_index("a sample has a key, an offset and members");
  }
  IndexedSample sample{.key = json[0].get<std::string>(), .offset = number(json[1]), .members = {}};
  for (const Json& member : json[2]) {
    sample.members.push_back(parse_member(member));
    sample.num_bytes += sample.members.back().size;
  }
  return sample;
}

ShardIndex from_json(const Json& json) {
  if (json.at("millrace_index") != kVersion) corrupt_index("is of another version");
  ShardIndex index{.bytes = number(json.at("bytes")),
                   .end = number(json.at("end")),
                   .sha256 = json.value("sha256", ""),
                   .samples = {}};
  const Json& samples = json.at("samples");
  if (!samples.is_array()) corrupt_index("its samples are not a list");
  for (const Json& sample : samples) index.samples.push_back(parse_sample(sample));
  if (number(json.at("count")) != index.samples.size()) corrupt_index("its count is wrong");
  return index;
}

// Any JSON, as another program may have written it.
ShardIndex parse_any_index(std::string_view text) {
  const Json json = parse_json<Json>(text, "index", {.bytes = kMaxDocumentBytes, .depth = 8});
  if (!json.is_object()) corrupt_index("is not a JSON object");
  try {
    return from_json(json);
  } catch (const Json::exception& error) {
    corrupt_index(fault_text(error));
  }
}

void append_string(std::string& text, const std::string& value) {
  const auto is_plain = [](char c) {
    return static_cast<unsigned char>(c) >= ' ' && c != '"' && c != '\\';
  };
  if (!std::all_of(value.begin(), value.end(), is_plain)) {
    text += Json(value).dump();
    return;
  }
  text.append(1, '"').append(value).append(1, '"');
}

void append_member(std::string& text, const IndexedMember& member) {
  append_string(text += '[', member.suffix);
  text.append(",").append(std::to_string(member.offset));
  text.append(",").append(std::to_string(member.size));
  text.append(",\"").append(hex(member.crc32));
  text.append("\",\"").append(hex(member.header_crc32)).append("\"]");
}

// As JSON's dump() has it, without a document of it.
void append_sample(std::string& text, const IndexedSample& sample) {
  append_string(text += '[', sample.key);
  text.append(",").append(std::to_string(sample.offset)).append(",[");
  for (const IndexedMember& member : sample.members) {
    if (&member != &sample.members.front()) text += ',';
    append_member(text, member);
  }
  text += "]]";
}

constexpr std::string_view kSeal = ",\"crc32\":\"";
constexpr std::string_view kSealEnd = "\"}\n";

std::uint32_t crc_of(std::string_view text) { return crc32(std::as_bytes(std::span(text))); }

bool by_offset(const IndexedSample& a, const IndexedSample& b) { return a.offset < b.offset; }

}  // namespace

ShardIndex parse_index(std::string_view text, IndexParts parts) {
  auto plain = parse_plain_index(text, parts);
  ShardIndex index = plain ? *std::move(plain) : parse_any_index(text);
  if (!std::is_sorted(index.samples.begin(), index.samples.end(), by_offset)) {
    corrupt_index("its samples are not in order");
  }
  return index;
}

std::optional<IndexHead> head_of_index(std::string_view begin) {
  const std::size_t samples = begin.find(",\"samples\":");
  if (samples == std::string_view::npos) return {};
  try {
    const Json json = parse_json<Json>(std::string(begin.substr(0, samples)) + "}", "index");
    return IndexHead{.count = number(json.at("count")), .sha256 = json.value("sha256", "")};
  } catch (const std::exception&) {
    return {};
  }
}

std::string index_text(const ShardIndex& index) {
  std::string text = Json({{"millrace_index", kVersion},
                           {"bytes", index.bytes},
                           {"count", index.samples.size()},
                           {"end", index.end},
                           {"sha256", index.sha256}})
                         .dump();
  text.pop_back();  // the closing brace: samples follow, one per line
  text += ",\"samples\":[";
  for (const IndexedSample& sample : index.samples) {
    append_sample(text += text.back() == '[' ? "\n" : ",\n", sample);
  }
  return text + "\n]}\n";
}

std::string sealed(std::string text) {
  text.resize(text.size() - std::string_view("}\n").size());
  const std::string crc = hex(crc_of(text));
  return text.append(kSeal).append(crc).append(kSealEnd);
}

bool check_seal(std::string_view text) {
  constexpr std::size_t kDigits = 8;
  constexpr std::size_t kBytes = kSeal.size() + kDigits + kSealEnd.size();
  if (text.size() < kBytes) return false;
  const std::string_view content = text.substr(0, text.size() - kBytes);
  const std::string_view seal = text.substr(content.size());
  if (!seal.starts_with(kSeal) || !seal.ends_with(kSealEnd)) return false;
  if (seal.substr(kSeal.size(), kDigits) != hex(crc_of(content)))
    corrupt_index("its own CRC-32 is wrong");
  return true;
}

}  // namespace millrace::wds::detail
