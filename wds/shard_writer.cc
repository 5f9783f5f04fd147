#include "wds/shard_writer.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <future>
#include <utility>

#include "io/base/error.h"
#include "io/opener.h"
#include "wds/detail/tar_writer.h"
#include "wds/detail/write_text.h"
#include "wds/key_set.h"
#include "wds/manifest.h"
#include "wds/member_name.h"
#include "wds/shard_index.h"

namespace millrace::wds {
namespace {

[[noreturn]] void refuse(const std::string& message, Where where = {}) {
  throw Error(ErrorCode::kInvalidArgument, message, std::move(where));
}

std::string member_name(const std::string& key, const std::string& suffix) {
  std::string name = key + "." + suffix;
  try {
    check_member_name(name);
  } catch (const Error& error) {
    refuse(error.message(), {.key = key, .member = name});
  }
  const auto read_back = split_member_name(name);
  if (is_metadata_member(name) || !read_back || read_back->key != key ||
      read_back->suffix != suffix) {
    refuse("a reader would not find key and suffix again in " + name, {.key = key, .member = name});
  }
  return name;
}

struct Member {
  std::string name;
  const WriterField* field;
};

// In writing order.
std::vector<Member> members_of(const WriterSample& sample) {
  if (sample.fields.empty()) refuse("a sample has at least one field", {.key = sample.key});
  std::vector<Member> members;
  members.reserve(sample.fields.size());
  for (const WriterField& field : sample.fields) {
    members.push_back({member_name(sample.key, field.suffix), &field});
  }
  std::sort(members.begin(), members.end(),
            [](const Member& a, const Member& b) { return a.name < b.name; });
  const auto twice =
      std::adjacent_find(members.begin(), members.end(),
                         [](const Member& a, const Member& b) { return a.name == b.name; });
  if (twice != members.end()) refuse("a suffix twice: " + twice->name, {.key = sample.key});
  return members;
}

/// The shard that is being written.
class OpenShard {
 public:
  OpenShard(std::string url, const ShardWriterOptions& options)
      : url_(std::move(url)),
        indexed_(options.index),
        replace_(options.replace),
        opener_(options.opener),
        tar_(detail::open_output(opener_, url_, options.replace),
             {.mtime = options.mtime,
              .checksums = options.index,
              .threads = options.threads,
              .on_wait = [log = options.log, name = io::printable_url(url_)] {
                log.info("waiting for what is written of " + name + ": the store is slow");
              }}) {}

  // Readers treat members of one key that are not adjacent as damage.
  void refuse_known_key(const std::string& key) {
    if (keys_.insert(key, 0)) refuse("a key twice in one shard", {.url = url_, .key = key});
  }

  void add(const std::string& key, const std::vector<Member>& members) {
    IndexedSample entry{.key = key, .members = {}};
    entry.members.reserve(members.size());
    for (const Member& member : members) {
      const io::Bytes& data = member.field->data;
      const detail::WrittenMember wrote = tar_.add(member.name, data);
      payload_bytes_ += data.size();
      if (entry.members.empty()) entry.offset = wrote.offset;
      entry.members.push_back({.suffix = member.field->suffix,
                               .offset = wrote.data_offset,
                               .size = data.size(),
                               .crc32 = wrote.crc32,
                               .header_crc32 = wrote.header_crc32});
      entry.num_bytes += data.size();
    }
    ++samples_;
    if (indexed_) index_.samples.push_back(std::move(entry));
  }

  ShardSummary publish() {
    const detail::WrittenTar tar = tar_.end();
    index_.end = tar.end;
    index_.bytes = tar.bytes;
    index_.sha256 = tar.sha256;
    if (!indexed_)
      publish_unindexed();
    else if (io::is_network_url(url_))
      publish_object();
    else
      publish_file();
    return {.url = url_, .samples = samples_, .bytes = tar.bytes, .sha256 = tar.sha256};
  }

  const std::string& url() const { return url_; }
  std::uint64_t samples() const { return samples_; }
  std::uint64_t payload_bytes() const { return payload_bytes_; }

 private:
  void put_index() const {
    write_index(index_, index_url(url_), io::Replace::kAtomically, opener_);
  }

  // The index of a shard that is replaced is none of the new one's.
  void publish_unindexed() {
    if (replace_ == io::Replace::kAtomically) {
      if (io::is_network_url(url_))
        try_remove(index_url(url_));
      else
        static_cast<void>(std::remove(index_url(url_).c_str()));
    }
    tar_.publish();
  }

  // No shard is without its index. An index without a shard does no harm: the next writer replaces
  // it.
  void publish_file() {
    // Another writer's shard has its own index, which is not ours to replace.
    if (replace_ == io::Replace::kNever && std::filesystem::exists(url_))
      refuse("file exists and may not be replaced", {.url = url_});
    put_index();
    try {
      tar_.publish();
    } catch (...) {
      static_cast<void>(std::remove(index_url(url_).c_str()));
      throw;
    }
  }

  // A store has no locks: of writers that may not replace, it takes one's shard, and only that one
  // touches the index. Where the shard may be replaced, its old index goes first, so that no reader
  // finds the new shard beside it.
  void publish_object() {
    if (replace_ == io::Replace::kAtomically) try_remove(index_url(url_));
    tar_.publish();
    try {
      put_index();
    } catch (...) {
      if (replace_ == io::Replace::kNever) try_remove(url_);
      throw;
    }
  }

  // What cannot be removed is said by what follows, or less than what came before.
  void try_remove(const std::string& url) const {
    try {
      opener_->remove(url);
    } catch (const Error&) {
    }
  }

  std::string url_;
  bool indexed_;
  io::Replace replace_;
  const io::Opener* opener_;
  detail::TarWriter tar_;
  KeySet keys_;
  ShardIndex index_;
  std::uint64_t samples_ = 0;
  std::uint64_t payload_bytes_ = 0;
};

Manifest manifest_of(const std::vector<ShardSummary>& shards, const StoredPictures& pictures) {
  Manifest manifest;
  manifest.pictures = pictures;
  for (const ShardSummary& shard : shards) {
    manifest.shards.push_back(
        {.url = shard.url, .samples = shard.samples, .bytes = shard.bytes, .sha256 = shard.sha256});
  }
  return manifest;
}

}  // namespace

struct ShardWriter::State {
  explicit State(ShardWriterOptions given)
      : options(std::move(given)),
        next(options.start_shard + options.earlier.size()),
        done(std::exchange(options.earlier, {})) {
    if (!options.threads) options.threads = std::make_shared<WriterThreads>();
  }
  ~State() {
    if (published.valid()) wait_until_published();
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  void open() {
    shard = std::make_unique<OpenShard>(shard_name(options.pattern, next), options);
    next += options.shard_step;
  }

  // One at a time, so that the shards appear in order.
  void close() {
    await_published();
    closing = std::move(shard);
    published = options.threads->publish.add([this] { summary = closing->publish(); }).share();
  }

  bool has_published() const {
    return published.valid() &&
           published.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
  }

  void wait_until_published() const {
    await_job(published, [this] {
      options.log.info("waiting for " + io::printable_url(closing->url()) + " to be published");
    });
  }

  // A fault is kept and thrown by every later call, so that no shard appears behind a gap.
  void await_published() {
    if (!published.valid()) return;
    wait_until_published();
    closing.reset();
    published.get();
    published = {};
    done.push_back(std::move(summary));
    if (options.on_shard) options.on_shard(done.back());
  }

  bool full() const {
    if (shard->samples() >= options.maxcount) return true;
    if (shard->payload_bytes() < options.maxsize) return false;
    if (options.shard_step > 1)
      refuse(
          "a shard is full before it has its maxcount of samples, by which several writers "
          "divide a set: lower maxcount or raise maxsize");
    return true;
  }

  ShardWriterOptions options;
  std::uint64_t next;
  std::unique_ptr<OpenShard> shard;
  std::unique_ptr<OpenShard> closing;  ///< full, and being published
  ShardSummary summary;                ///< of `closing`, when it is published
  std::shared_future<void> published;
  std::vector<ShardSummary> done;
};

ShardWriter::ShardWriter(ShardWriterOptions options) {
  if (options.maxcount == 0) refuse("maxcount must be at least 1");
  if (options.maxsize == 0) refuse("maxsize must be at least 1");
  state_ = std::make_unique<State>(std::move(options));
  state_->open();
}
ShardWriter::~ShardWriter() = default;
ShardWriter::ShardWriter(ShardWriter&&) noexcept = default;
ShardWriter& ShardWriter::operator=(ShardWriter&&) noexcept = default;

void ShardWriter::write(const WriterSample& sample) {
  const std::vector<Member> members = members_of(sample);
  if (state_->has_published()) state_->await_published();
  if (state_->shard && state_->full()) state_->close();
  if (!state_->shard) state_->open();
  state_->shard->refuse_known_key(sample.key);
  state_->shard->add(sample.key, members);
}

std::vector<ShardSummary> ShardWriter::finish() {
  if (state_->shard && state_->shard->samples() > 0) state_->close();
  state_->shard.reset();
  state_->await_published();
  if (!state_->options.manifest.empty()) {
    write_manifest(manifest_of(state_->done, state_->options.pictures), state_->options.manifest,
                   io::Replace::kAtomically, state_->options.opener);
  }
  return state_->done;
}

}  // namespace millrace::wds
