#include "pipeline/data_identity.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <thread>

#include "io/base/error.h"
#include "io/base/hash.h"
#include "io/base/json.h"
#include "io/local_path.h"
#include "io/opener.h"
#include "pipeline/detail/resolve.h"
#include "wds/split.h"

namespace millrace::pipeline {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kPieceBytes = std::size_t{16} * 1024;
constexpr std::size_t kChecksumDigits = 16;
constexpr std::size_t kReaders = 16;  // files of a network's file system answer slowly
constexpr std::size_t kMaxNameBytes = 4096;

void hash_piece(const std::string& path, std::uint64_t offset, Sha256& hash) {
  const auto source = io::UrlOpener().open(path, {.offset = offset});
  std::array<std::byte, kPieceBytes> piece{};
  std::size_t size = 0;
  while (size < piece.size()) {
    const std::size_t got = source->read(std::span(piece).subspan(size));
    if (got == 0) break;
    size += got;
  }
  hash.update(std::span(piece).first(size));
}

void look_at(const std::string& url, ShardIdentity& shard) {
  const auto path = io::local_path(url);
  std::error_code none;
  if (!path || !std::filesystem::is_regular_file(*path, none)) return;
  const std::uint64_t bytes = std::filesystem::file_size(*path, none);
  if (none) return;
  Sha256 hash;
  const std::string size = std::to_string(bytes);
  hash.update(std::as_bytes(std::span(size)));
  const std::uint64_t last = bytes < kPieceBytes ? 0 : bytes - kPieceBytes;
  try {
    for (const std::uint64_t offset : {std::uint64_t{0}, last / 2, last})
      hash_piece(url, offset, hash);
  } catch (const Error&) {
    return;  // whoever reads the shard says what is wrong with it
  }
  shard.bytes = bytes;
  shard.checksum = hash.hex().substr(0, kChecksumDigits);
}

void look_at_all(const std::vector<std::string>& urls, std::vector<ShardIdentity>& shards) {
  std::atomic<std::size_t> next{0};
  const auto work = [&] {
    for (std::size_t i = next++; i < urls.size(); i = next++) look_at(urls[i], shards[i]);
  };
  std::vector<std::jthread> readers;
  for (std::size_t i = 1; i < std::min(kReaders, urls.size()); ++i) readers.emplace_back(work);
  work();
}

template <typename Value>
Json or_null(const std::optional<Value>& value) {
  return value ? Json(*value) : Json(nullptr);
}

std::optional<std::uint64_t> number_or_null(const Json& value) {
  if (value.is_null()) return {};
  return json_integer<std::uint64_t>(value, "a shard's size");
}

std::string short_text(const Json& value) {
  std::string text = value.get<std::string>();
  if (text.size() > kMaxNameBytes) throw Error(ErrorCode::kCorrupt, "a name is too long");
  return text;
}

DataIdentity identity_from(const Json& json) {
  DataIdentity identity;
  for (const auto& [name, value] : json.at("options").items())
    identity.options.emplace_back(name, short_text(value));
  for (const Json& shard : json.at("shards"))
    identity.shards.push_back({.name = short_text(shard.at(0)),
                               .samples = number_or_null(shard.at(1)),
                               .bytes = number_or_null(shard.at(2)),
                               .checksum = short_text(shard.at(3))});
  return identity;
}

std::string facts(const ShardIdentity& shard) {
  std::vector<std::string> known;
  if (shard.samples) known.push_back(fmt::format("{} samples", *shard.samples));
  if (shard.bytes) known.push_back(fmt::format("{} bytes", *shard.bytes));
  if (!shard.checksum.empty()) known.push_back("checksum " + shard.checksum);
  std::string text;
  for (const std::string& one : known) text += (text.empty() ? "" : ", ") + one;
  return text;
}

template <typename Value>
bool differ(const std::optional<Value>& one, const std::optional<Value>& other) {
  return one && other && *one != *other;
}

bool differ(const ShardIdentity& one, const ShardIdentity& other) {
  const bool both = !one.checksum.empty() && !other.checksum.empty();
  return differ(one.samples, other.samples) || differ(one.bytes, other.bytes) ||
         (both && one.checksum != other.checksum);
}

}  // namespace

void DataIdentity::forget(const std::string& url) {
  const std::string name = detail::base_name(url);
  for (ShardIdentity& shard : shards)
    if (shard.name == name) shard = {.name = name};
}

std::string DataIdentity::to_json() const {
  Json named = Json::object();
  for (const auto& [name, value] : options) named[name] = value;
  Json list = Json::array();
  for (const ShardIdentity& shard : shards)
    list.push_back({shard.name, or_null(shard.samples), or_null(shard.bytes), shard.checksum});
  return Json{{"options", std::move(named)}, {"shards", std::move(list)}}.dump();
}

DataIdentity DataIdentity::from_json(const std::string& text) {
  try {
    return identity_from(parse_json<Json>(text, "the training set"));
  } catch (const Json::exception& error) {
    throw Error(ErrorCode::kCorrupt, std::string("the training set: ") + error.what());
  }
}

DataIdentity identify(const PipelineOptions& options) {
  DataIdentity identity{.options = detail::order_options(options)};
  for (std::size_t i = 0; i < options.shards.size(); ++i) {
    ShardIdentity shard{.name = detail::base_name(options.shards[i])};
    if (options.counts) shard.samples = options.counts->at(i);
    identity.shards.push_back(std::move(shard));
  }
  look_at_all(options.shards, identity.shards);
  return identity;
}

std::vector<std::string> option_differences(const DataIdentity& saved, const DataIdentity& given) {
  std::vector<std::string> lines;
  for (const auto& [name, value] : given.options) {
    const auto found =
        std::ranges::find(saved.options, name, [](const auto& one) { return one.first; });
    if (found != saved.options.end() && found->second != value)
      lines.push_back(fmt::format("{}: {} saved, {} given", name, found->second, value));
  }
  return lines;
}

std::string list_difference(const DataIdentity& saved, const DataIdentity& given) {
  const std::size_t both = std::min(saved.shards.size(), given.shards.size());
  for (std::size_t i = 0; i < both; ++i)
    if (saved.shards[i].name != given.shards[i].name)
      return fmt::format("shard {} of the list: {} saved, {} given", i + 1, saved.shards[i].name,
                         given.shards[i].name);
  if (saved.shards.size() == given.shards.size()) return {};
  return fmt::format("{} shards saved, {} given", saved.shards.size(), given.shards.size());
}

std::string content_difference(const DataIdentity& saved, const DataIdentity& given) {
  const std::size_t both = std::min(saved.shards.size(), given.shards.size());
  for (std::size_t i = 0; i < both; ++i)
    if (saved.shards[i].name == given.shards[i].name && differ(saved.shards[i], given.shards[i]))
      return fmt::format("shard {}: {} saved, {} given", saved.shards[i].name,
                         facts(saved.shards[i]), facts(given.shards[i]));
  return {};
}

}  // namespace millrace::pipeline
