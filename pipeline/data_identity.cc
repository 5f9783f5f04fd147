#include "pipeline/data_identity.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <span>
#include <string_view>

#include "io/base/error.h"
#include "io/base/fault_text.h"
#include "io/base/hash.h"
#include "io/base/json.h"
#include "io/base/text.h"
#include "io/base/threads.h"
#include "io/byte_source.h"
#include "io/local_path.h"
#include "io/opener.h"
#include "pipeline/detail/resolve.h"
#include "wds/parquet_shard.h"
#include "wds/sample_selection.h"
#include "wds/shard_index.h"
#include "wds/split.h"

namespace millrace::pipeline {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kPieceBytes = std::size_t{16} * 1024;
constexpr std::size_t kChecksumDigits = 16;
constexpr std::size_t kReaders = 16;  // a network file system answers slowly
constexpr std::size_t kMaxObjects = 256;
constexpr std::size_t kMaxNameBytes = 4096;

/// The next kPieceBytes of `source`, or what is left of it.
std::vector<std::byte> read_piece(io::ByteSource& source) {
  std::vector<std::byte> piece(kPieceBytes);
  std::size_t size = 0;
  while (size < piece.size()) {
    const std::size_t got = source.read(std::span(piece).subspan(size));
    if (got == 0) break;
    size += got;
  }
  piece.resize(size);
  return piece;
}

std::string digits_of(Sha256& hash) { return hash.hex().substr(0, kChecksumDigits); }

std::string checksum_of(std::span<const std::byte> piece) {
  Sha256 hash;
  hash.update(piece);
  return digits_of(hash);
}

/// The first digits of what the index next to the shard at `path` says; empty if there is none.
std::string indexed_sha256(const std::string& path) {
  const std::string index = wds::index_url(path);
  std::error_code none;
  if (!std::filesystem::is_regular_file(index, none)) return {};
  try {
    const auto head = wds::read_index_head(io::UrlOpener(), index);
    return head ? head->sha256.substr(0, kChecksumDigits) : std::string();
  } catch (const Error&) {  // its reader says what is wrong
    return {};
  }
}

void look_at(const std::string& path, ShardIdentity& shard) {
  std::error_code none;
  if (!std::filesystem::is_regular_file(path, none)) return;
  const std::uint64_t bytes = std::filesystem::file_size(path, none);
  if (none) return;
  Sha256 hash;
  const std::string size = std::to_string(bytes);
  hash.update(std::as_bytes(std::span(size)));
  const std::uint64_t last = bytes < kPieceBytes ? 0 : bytes - kPieceBytes;
  std::string head;
  for (const std::uint64_t offset : {std::uint64_t{0}, last / 2, last}) {
    const auto piece = read_piece(*io::UrlOpener().open(path, {.offset = offset}));
    hash.update(piece);
    if (head.empty()) head = checksum_of(piece);
  }
  shard.bytes = bytes;
  shard.checksum = digits_of(hash);
  shard.head = head;
  shard.sha256 = indexed_sha256(path);
}

void look_at(io::ByteSource& object, ShardIdentity& shard) {
  shard.head = checksum_of(read_piece(object));
  shard.bytes = object.size();
}

/// Reads what identifies each shard, on several threads.
class Lookup {
 public:
  Lookup(const PipelineOptions& options, std::vector<ShardIdentity>& shards)
      : options_(options), shards_(shards) {
    for (std::size_t i = 0; i < shards.size(); ++i)
      (io::is_network_url(options.shards[i]) ? objects_ : files_).push_back(i);
    spread(objects_, kMaxObjects);
  }

  void run() {
    const std::size_t most = std::max(files_.size(), objects_.size());
    run_on_threads(std::min(kReaders, most), [&] { work(); });
  }

 private:
  /// Keeps at most `count` of `places`, evenly spaced.
  static void spread(std::vector<std::size_t>& places, std::size_t count) {
    if (places.size() <= count) return;
    for (std::size_t i = 0; i < count; ++i) places[i] = places[i * places.size() / count];
    places.resize(count);
  }

  void work() {
    for (std::size_t i = next_file_++; i < files_.size(); i = next_file_++) look_at_file(files_[i]);
    for (std::size_t i = next_object_++; i < objects_.size() && !is_down_; i = next_object_++)
      look_at_object(objects_[i]);
  }

  // A fault is reported by the reader of the shard.
  void look_at_file(std::size_t place) {
    try {
      const auto path = io::local_path(wds::stored_url(options_.shards[place]));
      if (path) look_at(*path, shards_[place]);
    } catch (const Error&) {
    }
  }

  // The opener has retried already: another shard would fail the same way, after the same wait.
  void look_at_object(std::size_t place) {
    try {
      const auto source =
          options_.opener->open(wds::stored_url(options_.shards[place]), {.stop = options_.stop});
      look_at(*source, shards_[place]);
    } catch (const Error& error) {
      if (!cannot_be_seen(error)) is_down_ = true;
    }
  }

  const PipelineOptions& options_;
  std::vector<ShardIdentity>& shards_;
  std::vector<std::size_t> files_;
  std::vector<std::size_t> objects_;
  std::atomic<std::size_t> next_file_{0};
  std::atomic<std::size_t> next_object_{0};
  std::atomic<bool> is_down_{false};
};

/// As JSON can hold it: a file's name need not be UTF-8.
std::string name_of(const std::string& url) {
  return printable(detail::base_name(url), kMaxNameBytes);
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
                               .checksum = short_text(shard.at(3)),
                               .head = shard.size() > 4 ? short_text(shard.at(4)) : "",
                               .sha256 = shard.size() > 5 ? short_text(shard.at(5)) : ""});
  return identity;
}

std::string facts(const ShardIdentity& shard) {
  std::vector<std::string> known;
  if (shard.samples) known.push_back(fmt::format("{} samples", *shard.samples));
  if (shard.bytes) known.push_back(fmt::format("{} bytes", *shard.bytes));
  if (!shard.checksum.empty()) known.push_back("checksum " + shard.checksum);
  if (!shard.head.empty()) known.push_back("beginning " + shard.head);
  if (!shard.sha256.empty()) known.push_back("SHA-256 " + shard.sha256 + "...");
  std::string text;
  for (const std::string& one : known) text += (text.empty() ? "" : ", ") + one;
  return text;
}

template <typename Value>
bool differ(const std::optional<Value>& one, const std::optional<Value>& other) {
  return one && other && *one != *other;
}

bool differ(const std::string& one, const std::string& other) {
  return !one.empty() && !other.empty() && one != other;
}

bool differ(const ShardIdentity& one, const ShardIdentity& other) {
  return differ(one.samples, other.samples) || differ(one.bytes, other.bytes) ||
         differ(one.checksum, other.checksum) || differ(one.head, other.head) ||
         differ(one.sha256, other.sha256);
}

}  // namespace

void DataIdentity::forget(const std::string& url) {
  const std::string name = name_of(url);
  for (ShardIdentity& shard : shards)
    if (shard.name == name) shard = {.name = name};
}

void DataIdentity::forget_order() {
  std::erase_if(options, [](const auto& option) {
    return std::ranges::count(detail::kOptionsOfOrder, option.first) > 0;
  });
}

std::string DataIdentity::to_json() const {
  Json named = Json::object();
  for (const auto& [name, value] : options) named[name] = value;
  Json list = Json::array();
  for (const ShardIdentity& shard : shards)
    list.push_back({shard.name, or_null(shard.samples), or_null(shard.bytes), shard.checksum,
                    shard.head, shard.sha256});
  return Json{{"options", std::move(named)}, {"shards", std::move(list)}}.dump();
}

DataIdentity DataIdentity::from_json(const std::string& text) {
  try {
    return identity_from(parse_json<Json>(text, "the training set"));
  } catch (const Json::exception& error) {
    throw Error(ErrorCode::kCorrupt, "the training set: " + fault_text(error));
  }
}

DataIdentity identify(PipelineOptions options) {
  if (!options.opener) options.opener = std::make_shared<io::UrlOpener>();
  DataIdentity identity{.options = detail::order_options(options)};
  // A batch that is cut has the samples of one with masked slots.
  const Uneven uneven = options.batch.uneven;
  identity.options.emplace_back(
      "uneven", word_of(uneven == Uneven::kPartial ? Uneven::kPad : uneven, kUnevenWords));
  if (options.batch.fill) identity.options.emplace_back("fill", "on");
  const std::size_t own = options.shards.size();
  for (const std::vector<std::string>& list : options.joins)
    options.shards.insert(options.shards.end(), list.begin(), list.end());
  for (std::size_t i = 0; i < options.shards.size(); ++i) {
    ShardIdentity shard{.name = name_of(options.shards[i])};
    if (options.found.counts && i < own) shard.samples = options.found.counts->at(i);
    identity.shards.push_back(std::move(shard));
  }
  Lookup(options, identity.shards).run();
  return identity;
}

namespace {

/// Of the first digits of each shard's SHA-256; empty if one has none.
std::string digest_of(std::span<const std::string> sha256s) {
  if (std::ranges::any_of(sha256s, &std::string::empty)) return {};
  Sha256 all;
  for (const std::string& one : sha256s)
    all.update(std::as_bytes(std::span(one).first(std::min(one.size(), kChecksumDigits))));
  return digits_of(all);
}

/// By the indexes that the run has read: nothing is requested for it.
Position::Contents digest_indexes(const PipelineOptions& options) {
  std::vector<std::string> sha256s;
  for (const std::string& url : options.shards)
    sha256s.push_back(options.found.first_indexes->sha256_of(url));
  return {.indexes = digest_of(sha256s)};
}

}  // namespace

Position::Contents digest_contents(PipelineOptions options) {
  const auto is_elsewhere = [](const std::string& url) { return !io::local_path(url); };
  if (options.shards.empty()) return {};
  if (std::ranges::any_of(options.shards, is_elsewhere)) return digest_indexes(options);
  std::erase_if(options.joins, [&](const std::vector<std::string>& list) {
    return std::ranges::any_of(list, is_elsewhere);
  });
  Sha256 pieces;
  std::vector<std::string> sha256s;
  for (const ShardIdentity& shard : identify(std::move(options)).shards) {
    pieces.update(std::as_bytes(std::span(shard.checksum)));
    sha256s.push_back(shard.sha256);
  }
  return {.pieces = digits_of(pieces), .indexes = digest_of(sha256s)};
}

namespace {

using OptionList = std::vector<std::pair<std::string, std::string>>;

/// "none" for one that is there only if it is used; null for one that another version did not save.
const std::string* find_option(const OptionList& options, const std::string& name) {
  static const std::string none = "none";
  const auto found = std::ranges::find(options, name, [](const auto& one) { return one.first; });
  if (found != options.end()) return &found->second;
  return std::ranges::count(detail::kOptionsOnlyIfUsed, name) > 0 ? &none : nullptr;
}

/// Earlier versions saved the path of a file of weights, which says nothing of what is in it.
bool can_be_compared(const std::string& name, const std::string& one, const std::string& other) {
  const auto is_file = [](const std::string& value) {
    return value != "none" && wds::is_weights_file(value);
  };
  const auto is_content = [](const std::string& value) {
    return value.starts_with(detail::kOfWeightsFile);
  };
  return name != "weight" || !is_file(one) || !is_file(other) ||
         is_content(one) == is_content(other);
}

}  // namespace

std::vector<std::string> option_differences(const DataIdentity& saved, const DataIdentity& given) {
  OptionList all = given.options;
  for (const auto& option : saved.options)
    if (std::ranges::count(given.options, option.first,
                           [](const auto& one) { return one.first; }) == 0)
      all.push_back(option);
  std::vector<std::string> lines;
  for (const auto& [name, value] : all) {
    const std::string* before = find_option(saved.options, name);
    const std::string* now = find_option(given.options, name);
    if (before && now && *before != *now && can_be_compared(name, *before, *now))
      lines.push_back(fmt::format("{}: {} saved, {} given", name, *before, *now));
  }
  return lines;
}

std::string list_difference(const DataIdentity& saved, const DataIdentity& given,
                            const IdentityOwners& owners) {
  const std::size_t both = std::min(saved.shards.size(), given.shards.size());
  for (std::size_t i = 0; i < both; ++i)
    if (saved.shards[i].name != given.shards[i].name)
      return fmt::format("shard {} of the list: {} {}, {} {}", i + 1, saved.shards[i].name,
                         owners.one, given.shards[i].name, owners.other);
  if (saved.shards.size() == given.shards.size()) return {};
  const auto& longer = saved.shards.size() > both ? saved : given;
  return fmt::format("{} shards {}, {} {}: {} is in one list only", saved.shards.size(), owners.one,
                     given.shards.size(), owners.other, longer.shards[both].name);
}

std::string content_difference(const DataIdentity& saved, const DataIdentity& given,
                               const IdentityOwners& owners) {
  const std::size_t both = std::min(saved.shards.size(), given.shards.size());
  for (std::size_t i = 0; i < both; ++i)
    if (saved.shards[i].name == given.shards[i].name && differ(saved.shards[i], given.shards[i]))
      return fmt::format("shard {}: {} {}, {} {}", saved.shards[i].name, facts(saved.shards[i]),
                         owners.one, facts(given.shards[i]), owners.other);
  return {};
}

}  // namespace millrace::pipeline
