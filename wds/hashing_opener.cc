#include "wds/hashing_opener.h"

#include <vector>

#include "io/base/hash.h"

namespace millrace::wds {

struct HashingOpener::Count {
  Sha256 hash;
  std::uint64_t bytes = 0;
  int sources = 0;
  bool ended = false;

  void took(std::span<const std::byte> data) {
    hash.update(data);
    bytes += data.size();
    ended = data.empty();
  }
};

namespace {

template <typename Count>
class HashingSource final : public io::ByteSource {
 public:
  HashingSource(std::unique_ptr<io::ByteSource> source, std::shared_ptr<Count> count)
      : source_(std::move(source)), count_(std::move(count)) {}

  std::size_t read(std::span<std::byte> into) override {
    const std::size_t got = source_->read(into);
    count_->took(into.first(got));
    return got;
  }
  std::uint64_t position() const override { return source_->position(); }
  std::optional<std::uint64_t> size() const override { return source_->size(); }
  const std::string& url() const override { return source_->url(); }

 private:
  std::unique_ptr<io::ByteSource> source_;
  std::shared_ptr<Count> count_;
};

}  // namespace

HashingOpener::HashingOpener(const io::Opener& opener)
    : opener_(opener), count_(std::make_shared<Count>()) {}
HashingOpener::~HashingOpener() = default;

std::unique_ptr<io::ByteSource> HashingOpener::open(const std::string& url,
                                                    const io::OpenOptions& options) const {
  ++count_->sources;
  return std::make_unique<HashingSource<Count>>(opener_.open(url, options), count_);
}

std::pair<std::uint64_t, std::string> HashingOpener::finish(const io::Opener& opener,
                                                            const std::string& url,
                                                            const std::stop_token& stop) const {
  if (count_->sources > 1) *count_ = Count();
  if (!count_->ended) {
    const auto rest = opener.open(url, {.offset = count_->bytes, .stop = stop});
    std::vector<std::byte> buffer(std::size_t{256} * 1024);
    while (!count_->ended) count_->took(std::span(buffer).first(rest->read(buffer)));
  }
  return {count_->bytes, count_->hash.hex()};
}

}  // namespace millrace::wds
