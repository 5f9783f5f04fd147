#include "tools/create/idx_source.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <memory>
#include <span>
#include <utility>

#include "io/base/error.h"
#include "io/base/text.h"
#include "io/bytes.h"

namespace millrace::tools {
namespace {

struct IdxFile {
  std::vector<std::int64_t> shape;  ///< outermost first
  io::Bytes data;                   ///< product of `shape`, in bytes
};

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

/// Reads the file, unpacking gzip. Throws: NotFound, Io, Corrupt, Truncated, Unsupported (values
/// that are not bytes), Exhausted (more than 16 GiB).
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

/// Images (N, H, W) or (N, H, W, C) and labels (N).
void check_shapes(const IdxFile& images, const IdxFile& labels, const std::string& images_path,
                  const std::string& labels_path) {
  const std::size_t rank = images.shape.size();
  if (rank != 3 && !(rank == 4 && (images.shape[3] == 1 || images.shape[3] == 3)))
    throw Error(ErrorCode::kUnsupported, "images must be (N, H, W), or (N, H, W, C) with C 1 or 3",
                {.url = images_path});
  if (images.shape[1] == 0 || images.shape[2] == 0)
    throw Error(ErrorCode::kCorrupt, "images without pixels", {.url = images_path});
  if (labels.shape.size() != 1)
    throw Error(ErrorCode::kUnsupported, "labels must be (N)", {.url = labels_path});
  if (images.shape[0] != labels.shape[0])
    throw Error(
        ErrorCode::kCorrupt,
        fmt::format("{}, but {} in {}",
                    counted(static_cast<std::uint64_t>(images.shape[0]), "image"),
                    counted(static_cast<std::uint64_t>(labels.shape[0]), "label"), labels_path),
        {.url = images_path});
}

class IdxSource final : public SampleSource {
 public:
  IdxSource(IdxFile images, IdxFile labels, IdxOptions options)
      : images_(std::move(images)), labels_(std::move(labels)), options_(std::move(options)) {}

  void identify(Sha256& into) const override {
    into.update(std::as_bytes(std::span(images_.shape)));
    into.update(images_.data.span());
    into.update(labels_.data.span());
  }

  std::uint64_t size() const override { return labels_.data.size(); }

  wds::Sample make(std::uint64_t index) const override {
    wds::Sample sample;
    sample.key = fmt::format("{:08}", index);
    sample.fields = {label(index),
                     encode_field(resized(image(index), options_.size), options_.encoding)};
    return sample;
  }

 private:
  wds::Field label(std::uint64_t index) const {
    const auto value = std::to_integer<int>(labels_.data.span()[index]);
    return make_field("cls", io::Bytes::copy_of(std::to_string(value)));
  }

  decode::Image image(std::uint64_t index) const {
    decode::Image image{
        .height = static_cast<int>(images_.shape[1]),
        .width = static_cast<int>(images_.shape[2]),
        .channels = images_.shape.size() == 4 ? static_cast<int>(images_.shape[3]) : 1,
        .pixels = {}};
    const std::size_t bytes = images_.data.size() / size();
    image.pixels = images_.data.slice(index * bytes, bytes);
    return image;
  }

  IdxFile images_;
  IdxFile labels_;
  IdxOptions options_;
};

}  // namespace

std::unique_ptr<SampleSource> open_idx_source(const std::string& images_path,
                                              const std::string& labels_path,
                                              const IdxOptions& options) {
  IdxFile images = read_idx_file(images_path);
  IdxFile labels = read_idx_file(labels_path);
  check_shapes(images, labels, images_path, labels_path);
  return std::make_unique<IdxSource>(std::move(images), std::move(labels), options);
}

}  // namespace millrace::tools
