#include "tools/create/idx_source.h"

#include <fmt/format.h>

#include <memory>
#include <span>
#include <utility>

#include "decode/gunzip.h"
#include "io/base/error.h"
#include "io/base/text.h"
#include "io/bytes.h"
#include "io/local_file.h"

namespace millrace::tools {
namespace {

struct IdxFile {
  std::vector<std::int64_t> shape;  ///< outermost first
  io::Bytes data;                   ///< product of `shape`, in bytes
};

constexpr std::uint64_t kMaxIdxBytes = 16ULL << 30;
constexpr unsigned kUnsignedByte = 0x08;
constexpr std::size_t kWordBytes = 4;

/// The file's bytes, unpacked if they are gzipped.
io::Bytes read_unpacked(const std::string& path) {
  io::Bytes file = io::read_local_file(path, kMaxIdxBytes);
  const bool is_gzip =
      file.size() >= 2 && file.span()[0] == std::byte{0x1f} && file.span()[1] == std::byte{0x8b};
  if (!is_gzip) return file;
  return decode::gunzip(file, {.max_unpacked_bytes = static_cast<std::int64_t>(kMaxIdxBytes)});
}

std::int64_t size_at(const io::Bytes& file, std::size_t at) {
  std::int64_t value = 0;
  for (const std::byte byte : file.span().subspan(at, kWordBytes))
    value = value * 256 + std::to_integer<std::int64_t>(byte);
  return value;
}

std::vector<std::int64_t> shape_of(const io::Bytes& file) {
  constexpr const char* kCut = "the file ends within its header";
  if (file.size() < kWordBytes) throw Error(ErrorCode::kTruncated, kCut);
  const auto magic = file.span();
  if (magic[0] != std::byte{0} || magic[1] != std::byte{0})
    throw Error(ErrorCode::kCorrupt, "not an IDX file: it does not start with two zero bytes");
  if (magic[2] != std::byte{kUnsignedByte})
    throw Error(ErrorCode::kUnsupported, "an IDX file of values that are not bytes");
  std::vector<std::int64_t> shape(std::to_integer<std::size_t>(magic[3]));
  if (file.size() < kWordBytes * (1 + shape.size())) throw Error(ErrorCode::kTruncated, kCut);
  for (std::size_t i = 0; i < shape.size(); ++i) shape[i] = size_at(file, kWordBytes * (1 + i));
  return shape;
}

std::uint64_t claimed_bytes(const std::vector<std::int64_t>& shape) {
  std::uint64_t bytes = 1;
  for (const std::int64_t size : shape) {
    bytes *= static_cast<std::uint64_t>(size);
    if (bytes > kMaxIdxBytes) throw Error(ErrorCode::kExhausted, "an IDX file of more than 16 GiB");
  }
  return bytes;
}

IdxFile parse_idx(const io::Bytes& file) {
  IdxFile parsed{.shape = shape_of(file), .data = {}};
  const std::uint64_t claimed = claimed_bytes(parsed.shape);
  const std::size_t header = kWordBytes * (1 + parsed.shape.size());
  if (file.size() - header < claimed)
    throw Error(ErrorCode::kTruncated, "the file ends before the size its header names");
  if (file.size() - header > claimed)
    throw Error(ErrorCode::kCorrupt, "there is data beyond the size in the header");
  parsed.data = file.slice(header, claimed);
  return parsed;
}

/// Reads the file, unpacking gzip. Throws: NotFound, Io, Corrupt, Truncated, Unsupported (values
/// that are not bytes), Exhausted (more than 16 GiB, or unpacked to 100 times its size).
IdxFile read_idx_file(const std::string& path) {
  try {
    return parse_idx(read_unpacked(path));
  } catch (Error& error) {
    error.annotate({.url = path});
    throw;
  }
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
  if (images.shape[0] == 0) throw Error(ErrorCode::kCorrupt, "no images", {.url = images_path});
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
