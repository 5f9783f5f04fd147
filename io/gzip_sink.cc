#include "io/gzip_sink.h"

#include <isa-l/igzip_lib.h>

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "io/base/check.h"

namespace millrace::io {
namespace {

class GzipSink final : public ByteSink {
 public:
  explicit GzipSink(std::unique_ptr<ByteSink> packed)
      : packed_(std::move(packed)), tables_(ISAL_DEF_LVL1_DEFAULT), out_(kOutBytes) {
    isal_deflate_init(&stream_);
    stream_.gzip_flag = IGZIP_GZIP;
    stream_.level = 1;
    stream_.level_buf = tables_.data();
    stream_.level_buf_size = static_cast<std::uint32_t>(tables_.size());
  }

  void write(std::span<const std::byte> data) override {
    position_ += data.size();
    for (; !data.empty(); data = data.subspan(std::min(data.size(), kMaxInput)))
      pack(data.first(std::min(data.size(), kMaxInput)));
  }
  void finish() override {
    stream_.end_of_stream = 1;
    pack({});
    packed_->finish();
  }
  std::uint64_t position() const override { return position_; }

 private:
  static constexpr std::size_t kOutBytes = std::size_t{256} * 1024;
  static constexpr std::size_t kMaxInput = std::size_t{1} << 30;

  // A call that leaves room in the output has taken all of the input.
  void pack(std::span<const std::byte> data) {
    stream_.next_in = reinterpret_cast<std::uint8_t*>(const_cast<std::byte*>(data.data()));
    stream_.avail_in = static_cast<std::uint32_t>(data.size());
    do {
      stream_.next_out = out_.data();
      stream_.avail_out = static_cast<std::uint32_t>(out_.size());
      const int error = isal_deflate(&stream_);
      MILLRACE_CHECK(error == COMP_OK, "igzip's own state");
      packed_->write(std::as_bytes(std::span(out_).first(out_.size() - stream_.avail_out)));
    } while (stream_.avail_out == 0);
  }

  std::unique_ptr<ByteSink> packed_;
  std::vector<std::uint8_t> tables_;
  std::vector<std::uint8_t> out_;
  isal_zstream stream_ = {};
  std::uint64_t position_ = 0;
};

}  // namespace

std::unique_ptr<ByteSink> gzip_sink(std::unique_ptr<ByteSink> packed) {
  return std::make_unique<GzipSink>(std::move(packed));
}

bool has_gzip_name(std::string_view path) { return path.ends_with(".gz"); }

}  // namespace millrace::io
