#include "tools/metered_opener.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>

namespace millrace::tools {
namespace {

using Hooks = std::shared_ptr<const OpenerHooks>;

class MeteredSource final : public io::ByteSource {
 public:
  MeteredSource(std::unique_ptr<io::ByteSource> source, std::string url, Hooks hooks)
      : source_(std::move(source)), opened_(std::move(url)), hooks_(std::move(hooks)) {}

  std::size_t read(std::span<std::byte> into) override {
    const std::size_t got = source_->read(into);
    hooks_->on_read(opened_, *source_, got);
    return got;
  }
  bool skip(std::uint64_t bytes) override { return source_->skip(bytes); }
  std::uint64_t position() const override { return source_->position(); }
  std::optional<std::uint64_t> size() const override { return source_->size(); }
  std::string version() const override { return source_->version(); }
  const std::string& url() const override { return source_->url(); }

 private:
  std::unique_ptr<io::ByteSource> source_;
  std::string opened_;
  Hooks hooks_;
};

class MeteredSink final : public io::ByteSink {
 public:
  MeteredSink(std::unique_ptr<io::ByteSink> sink, Hooks hooks)
      : sink_(std::move(sink)), hooks_(std::move(hooks)) {}

  // A large piece would be told of when all of it is written.
  void write(std::span<const std::byte> data) override {
    constexpr std::size_t kPiece = std::size_t{256} * 1024;
    do {
      const auto piece = data.first(std::min(kPiece, data.size()));
      sink_->write(piece);
      hooks_->on_write(piece.size());
      data = data.subspan(piece.size());
    } while (!data.empty());
  }
  void finish() override { sink_->finish(); }
  std::uint64_t position() const override { return sink_->position(); }

 private:
  std::unique_ptr<io::ByteSink> sink_;
  Hooks hooks_;
};

}  // namespace

MeteredOpener::MeteredOpener(std::shared_ptr<const io::Opener> opener, OpenerHooks hooks)
    : opener_(std::move(opener)), hooks_(std::make_shared<const OpenerHooks>(std::move(hooks))) {}

std::unique_ptr<io::ByteSource> MeteredOpener::open(const std::string& url,
                                                    const io::OpenOptions& options) const {
  auto source = opener_->open(url, options);
  if (!hooks_->on_read) return source;
  return std::make_unique<MeteredSource>(std::move(source), url, hooks_);
}

std::unique_ptr<io::ByteSink> MeteredOpener::open_sink(const std::string& url,
                                                       const io::FileSinkOptions& options,
                                                       const std::stop_token& stop) const {
  auto sink = opener_->open_sink(url, options, stop);
  if (!hooks_->on_write) return sink;
  return std::make_unique<MeteredSink>(std::move(sink), hooks_);
}

}  // namespace millrace::tools
