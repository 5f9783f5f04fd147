#include "wds/indexes_ahead.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "io/base/error.h"
#include "wds/detail/index_text.h"
#include "wds/shard_index.h"

namespace millrace::wds {
namespace {

class KeptIndexSource final : public io::ByteSource {
 public:
  KeptIndexSource(const std::string& url, io::Bytes index, std::stop_token stop)
      : url_(io::printable_url(url)), index_(std::move(index)), stop_(std::move(stop)) {}

  std::size_t read(std::span<std::byte> into) override {
    if (stop_.stop_requested())
      throw Error(ErrorCode::kCancelled, "reading was stopped", {.url = url_});
    const auto rest = index_.span().subspan(position_);
    const std::size_t size = std::min(into.size(), rest.size());
    std::copy_n(rest.begin(), size, into.begin());
    position_ += size;
    return size;
  }
  std::uint64_t position() const override { return position_; }
  std::optional<std::uint64_t> size() const override { return index_.size(); }
  const std::string& url() const override { return url_; }

 private:
  std::string url_;
  io::Bytes index_;
  std::stop_token stop_;
  std::size_t position_ = 0;
};

/// One without a seal may be damaged: it is fetched again.
bool is_intact(const io::Bytes& index) {
  try {
    return detail::check_seal(index.text());
  } catch (const Error&) {
    return false;
  }
}

}  // namespace

IndexesAhead::IndexesAhead(std::shared_ptr<const io::Opener> opener,
                           std::span<const std::string> shards)
    : opener_(std::move(opener)) {
  for (const std::string& shard : shards) ++kept_[index_url(shard)].uses;
}

std::unique_ptr<io::ByteSource> IndexesAhead::open(const std::string& url,
                                                   const io::OpenOptions& options) const {
  const auto kept = options.offset == 0 ? take(url) : std::nullopt;
  if (!kept) return opener_->open(url, options);
  if (!kept->index) return fetch(url, options, kept->uses);
  return std::make_unique<KeptIndexSource>(url, *kept->index, options.stop);
}

/// One use of it; of an index that was not read yet, all of them.
std::optional<IndexesAhead::Kept> IndexesAhead::take(const std::string& url) const {
  MutexLock lock(mutex_);
  const auto found = kept_.find(url);
  if (found == kept_.end()) return {};
  const Kept kept = found->second;
  if (kept.index && --found->second.uses > 0) return kept;
  if (kept.index) bytes_ -= kept.index->size();
  kept_.erase(found);
  return kept;
}

std::unique_ptr<io::ByteSource> IndexesAhead::fetch(const std::string& url,
                                                    const io::OpenOptions& options,
                                                    std::size_t uses) const {
  try {
    io::Bytes index = io::read_object(*opener_, url, kMostOfOne, options.stop);
    if (is_intact(index)) keep(url, {.index = index, .uses = uses});
    return std::make_unique<KeptIndexSource>(url, std::move(index), options.stop);
  } catch (const Error& error) {
    // To count its samples, the beginning alone is needed.
    if (error.code() == ErrorCode::kCancelled || cannot_be_seen(error)) throw;
  }
  return opener_->open(url, options);
}

void IndexesAhead::keep(const std::string& url, Kept kept) const {
  MutexLock lock(mutex_);
  if (bytes_ + kept.index->size() > kMostOfAll) return;
  bytes_ += kept.index->size();
  kept_[url] = std::move(kept);
}

bool IndexesAhead::can_list(const std::string& url) const { return opener_->can_list(url); }
std::vector<io::ListedObject> IndexesAhead::list(const std::string& prefix,
                                                 const io::ListOptions& options) const {
  return opener_->list(prefix, options);
}
std::unique_ptr<io::ByteSink> IndexesAhead::open_sink(const std::string& url,
                                                      const io::FileSinkOptions& options,
                                                      const std::stop_token& stop) const {
  return opener_->open_sink(url, options, stop);
}
void IndexesAhead::remove(const std::string& url, const std::stop_token& stop) const {
  opener_->remove(url, stop);
}
void IndexesAhead::expect_digest(const std::string& url, const std::string& sha256) const {
  opener_->expect_digest(url, sha256);
}

}  // namespace millrace::wds
