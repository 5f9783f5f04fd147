#include "tools/create/idx_file.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <memory>
#include <span>

#include "io/base/error.h"

namespace millrace::tools {
namespace {

constexpr std::uint64_t kMaxIdxBytes = 16ULL << 30;
constexpr std::size_t kPieceBytes = 1 << 20;
constexpr unsigned kUnsignedByte = 0x08;

/// zlib's gzFile, which reads uncompressed files unchanged.
class GzReader {
 public:
  explicit GzReader(const std::string& path) : path_(path), file_(gzopen(path.c_str(), "rb")) {
    if (!file_) throw_errno("open", path, errno);
  }

  /// Reads as many bytes as there are, up to into.size().
  std::size_t read(std::span<std::byte> into) {
    const int got = gzread(file_.get(), into.data(), static_cast<unsigned>(into.size()));
    int status = Z_OK;
    const char* text = gzerror(file_.get(), &status);
    if (status == Z_BUF_ERROR) fail(ErrorCode::kTruncated, "the gzip stream ends too early");
    if (got < 0) fail(status == Z_ERRNO ? ErrorCode::kIo : ErrorCode::kCorrupt, text);
    return static_cast<std::size_t>(got);
  }

  /// Throws: Truncated if there are fewer bytes.
  void read_exactly(std::span<std::byte> into) {
    while (!into.empty()) {
      const std::size_t got = read(into.first(std::min(into.size(), kPieceBytes)));
      if (got == 0) fail(ErrorCode::kTruncated, "the file ends before the size its header names");
      into = into.subspan(got);
    }
  }

  [[noreturn]] void fail(ErrorCode code, const std::string& message) const {
    throw Error(code, message, {.url = path_});
  }

 private:
  struct Close {
    void operator()(gzFile_s* file) const { gzclose(file); }
  };
  std::string path_;
  std::unique_ptr<gzFile_s, Close> file_;
};

std::int64_t read_size(GzReader& reader) {
  std::array<std::byte, 4> bytes{};
  reader.read_exactly(bytes);
  std::int64_t value = 0;
  for (const std::byte byte : bytes) value = value * 256 + std::to_integer<std::int64_t>(byte);
  return value;
}

std::vector<std::int64_t> read_shape(GzReader& reader) {
  std::array<std::byte, 4> magic{};
  reader.read_exactly(magic);
  if (magic[0] != std::byte{0} || magic[1] != std::byte{0})
    reader.fail(ErrorCode::kCorrupt, "not an IDX file: it does not start with two zero bytes");
  if (magic[2] != std::byte{kUnsignedByte})
    reader.fail(ErrorCode::kUnsupported, "an IDX file of values that are not bytes");
  std::vector<std::int64_t> shape(std::to_integer<std::size_t>(magic[3]));
  for (std::int64_t& size : shape) size = read_size(reader);
  return shape;
}

std::uint64_t claimed_bytes(const std::vector<std::int64_t>& shape, const GzReader& reader) {
  std::uint64_t bytes = 1;
  for (const std::int64_t size : shape) {
    bytes *= static_cast<std::uint64_t>(size);
    if (bytes > kMaxIdxBytes) reader.fail(ErrorCode::kExhausted, "an IDX file of more than 16 GiB");
  }
  return bytes;
}

}  // namespace

IdxFile read_idx_file(const std::string& path) {
  GzReader reader(path);
  IdxFile file{.shape = read_shape(reader), .data = {}};
  const std::uint64_t claimed = claimed_bytes(file.shape, reader);
  std::vector<std::byte> data;
  while (data.size() < claimed) {  // grows with the bytes read, not with the claimed size
    const std::size_t before = data.size();
    data.resize(before + std::min<std::uint64_t>(claimed - before, kPieceBytes));
    reader.read_exactly(std::span(data).subspan(before));
  }
  std::array<std::byte, 1> more{};
  if (reader.read(more) != 0)
    reader.fail(ErrorCode::kCorrupt, "there is data beyond the size in the header");
  file.data = io::Bytes::take(std::move(data));
  return file;
}

}  // namespace millrace::tools
