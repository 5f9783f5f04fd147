#include "tools/create/idx_source.h"

#include <fmt/format.h>

#include <span>
#include <utility>

#include "io/base/error.h"
#include "io/base/text.h"
#include "tools/create/idx_file.h"

namespace millrace::tools {
namespace {

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
