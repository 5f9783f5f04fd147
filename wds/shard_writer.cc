#include "wds/shard_writer.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>

#include "io/base/check.h"
#include "io/base/error.h"
#include "wds/detail/tar_writer.h"
#include "wds/member_name.h"

namespace millrace::wds {
namespace {

[[noreturn]] void refuse(const std::string& message, Where where = {}) {
  throw Error(ErrorCode::kInvalidArgument, message, std::move(where));
}

/// A pattern cut at its one conversion: "train-" "%06d" ".tar".
struct Pattern {
  std::string before;
  std::string after;
  std::size_t width = 0;
  bool zeros = false;
};

// The width's digits from `at` on; leaves `at` behind them.
std::size_t parse_width(const std::string& pattern, std::size_t& at) {
  std::size_t width = 0;
  const char* const begin = pattern.data() + at;
  const auto [end, status] = std::from_chars(begin, pattern.data() + pattern.size(), width);
  at += static_cast<std::size_t>(end - begin);
  if (status == std::errc::result_out_of_range || width > 20) {
    refuse("the number in a shard pattern has at most 20 digits: " + pattern);
  }
  return width;
}

// A user's text, so no printf: it would believe every % in it.
Pattern parse_pattern(const std::string& pattern) {
  const std::size_t percent = pattern.find('%');
  if (percent == std::string::npos || pattern.find('%', percent + 1) != std::string::npos) {
    refuse("a shard pattern holds one %d or %0Nd: " + pattern);
  }
  Pattern parts{.before = pattern.substr(0, percent), .after = {}};
  std::size_t at = percent + 1;
  if (at < pattern.size() && pattern[at] == '0') {
    parts.zeros = true;
    ++at;
  }
  parts.width = parse_width(pattern, at);
  if (at >= pattern.size() || pattern[at] != 'd') {
    refuse("a shard pattern holds one %d or %0Nd: " + pattern);
  }
  parts.after = pattern.substr(at + 1);
  return parts;
}

std::string member_name(const std::string& key, const std::string& suffix) {
  std::string name = key + "." + suffix;
  check_member_name(name);
  const auto read_back = split_member_name(name);
  if (is_metadata_member(name) || !read_back || read_back->key != key ||
      read_back->suffix != suffix) {
    refuse("a reader would not find key and suffix again in " + name, {.key = key, .member = name});
  }
  return name;
}

}  // namespace

std::string shard_name(const std::string& pattern, std::uint64_t index) {
  const Pattern parts = parse_pattern(pattern);
  std::string digits = std::to_string(index);
  if (digits.size() < parts.width) {
    digits.insert(0, parts.width - digits.size(), parts.zeros ? '0' : ' ');
  }
  return parts.before + digits + parts.after;
}

struct ShardWriter::State {
  explicit State(ShardWriterOptions given) : options(std::move(given)), next(options.start_shard) {}

  void open() {
    shard = {.url = shard_name(options.pattern, next++)};
    payload_bytes = 0;
    tar.emplace(io::open_file_sink(shard.url, {.replace = options.replace}), options.mtime);
  }

  void close() {
    shard.bytes = tar->finish();
    tar.reset();
    done.push_back(shard);
    if (options.on_shard) options.on_shard(shard);
  }

  bool full() const {
    return shard.samples >= options.maxcount || payload_bytes >= options.maxsize;
  }

  ShardWriterOptions options;
  std::uint64_t next;
  std::optional<detail::TarWriter> tar;
  ShardSummary shard;
  std::uint64_t payload_bytes = 0;
  std::vector<ShardSummary> done;
};

ShardWriter::ShardWriter(ShardWriterOptions options) {
  if (options.maxcount == 0) refuse("maxcount is at least 1");
  if (options.maxsize == 0) refuse("maxsize is at least 1");
  state_ = std::make_unique<State>(std::move(options));
  state_->open();
}
ShardWriter::~ShardWriter() = default;
ShardWriter::ShardWriter(ShardWriter&&) noexcept = default;
ShardWriter& ShardWriter::operator=(ShardWriter&&) noexcept = default;

void ShardWriter::write(const WriterSample& sample) {
  if (sample.fields.empty()) refuse("a sample has at least one field", {.key = sample.key});
  std::vector<std::pair<std::string, const io::Bytes*>> members;
  for (const WriterField& field : sample.fields) {
    members.emplace_back(member_name(sample.key, field.suffix), &field.data);
  }
  std::sort(members.begin(), members.end(),
            [](const auto& a, const auto& b) { return a.first < b.first; });
  const auto twice =
      std::adjacent_find(members.begin(), members.end(),
                         [](const auto& a, const auto& b) { return a.first == b.first; });
  if (twice != members.end()) refuse("a suffix twice: " + twice->first, {.key = sample.key});

  if (state_->tar && state_->full()) state_->close();
  if (!state_->tar) state_->open();
  for (const auto& [name, data] : members) {
    state_->tar->add(name, data->span());
    state_->payload_bytes += data->size();
  }
  ++state_->shard.samples;
}

std::vector<ShardSummary> ShardWriter::finish() {
  if (state_->tar && state_->shard.samples > 0) state_->close();
  state_->tar.reset();
  return state_->done;
}

}  // namespace millrace::wds
