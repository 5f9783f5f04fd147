// A picture format of one's own, written to a shard and read through a pipeline: "RAW8" files are
// four letters, the height and the width in two bytes each, then grey pixels from the last row to
// the first.
#include <cstdio>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "millrace/decode/codec.h"
#include "millrace/decode/transforms/center_crop.h"
#include "millrace/io/base/error.h"
#include "millrace/pipeline/pipeline.h"
#include "millrace/wds/shard_writer.h"

namespace mr = millrace;

constexpr std::size_t kHeaderBytes = 8;

const std::uint8_t* bytes_of(std::span<const std::byte> file) {
  return reinterpret_cast<const std::uint8_t*>(file.data());
}

bool looks_like_raw8(std::span<const std::byte> file) {
  return file.size() >= 4 && std::string(reinterpret_cast<const char*>(file.data()), 4) == "RAW8";
}

mr::decode::ImageHeader read_header(std::span<const std::byte> file,
                                    const mr::decode::HeaderOptions& options) {
  if (file.size() < kHeaderBytes) throw mr::Error(mr::ErrorCode::kTruncated, "RAW8: no header");
  const std::uint8_t* bytes = bytes_of(file);
  const int height = bytes[4] * 256 + bytes[5];
  const int width = bytes[6] * 256 + bytes[7];
  if (height == 0 || width == 0) throw mr::Error(mr::ErrorCode::kCorrupt, "RAW8: no pixels");
  mr::decode::check_pixels(width, height, options.limits);
  if ((file.size() - kHeaderBytes) / static_cast<std::size_t>(width) <
      static_cast<std::size_t>(height))
    throw mr::Error(mr::ErrorCode::kTruncated, "RAW8: pixels are missing");
  return {.height = height, .width = width, .channels = 1};
}

/// Only the rows that are asked for, all columns.
mr::decode::PixelView decode(std::span<const std::byte> file, const mr::decode::ImageHeader& header,
                             const mr::decode::PixelRequest& request,
                             mr::decode::CodecScratch& scratch) {
  const auto width = static_cast<std::size_t>(header.width);
  scratch.pixels.resize(width * static_cast<std::size_t>(request.box.height));
  for (int y = 0; y < request.box.height; ++y) {
    const int stored = header.height - 1 - (request.box.y + y);
    const std::uint8_t* row =
        bytes_of(file) + kHeaderBytes + static_cast<std::size_t>(stored) * width;
    std::copy(row, row + width, scratch.pixels.data() + static_cast<std::size_t>(y) * width);
  }
  return {.data = scratch.pixels.data(),
          .stride = width,
          .box = {0, request.box.y, header.width, request.box.height},
          .channels = 1};
}

mr::decode::EncodedImage encode(const mr::decode::Image& image, const mr::decode::EncodeOptions&) {
  if (image.channels != 1)
    throw mr::Error(mr::ErrorCode::kInvalidArgument, "RAW8: pictures are grey");
  std::string file = "RAW8";
  for (const int side : {image.height, image.width})
    file += {static_cast<char>(side / 256), static_cast<char>(side % 256)};
  for (int y = image.height - 1; y >= 0; --y)
    for (const std::uint8_t value : image.row(y)) file += static_cast<char>(value);
  return {.suffix = "raw8", .data = mr::io::Bytes::copy_of(file)};
}

/// Pixel (y, x) is first + 10 y + x.
mr::decode::Image picture(int first) {
  std::string pixels;
  for (int y = 0; y < 6; ++y)
    for (int x = 0; x < 5; ++x) pixels += static_cast<char>(first + 10 * y + x);
  return {.height = 6, .width = 5, .channels = 1, .pixels = mr::io::Bytes::copy_of(pixels)};
}

int main() {
  const std::string folder =
      (std::filesystem::temp_directory_path() / "millrace-own-codec").string();
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  mr::decode::CodecTable codecs = *mr::decode::standard_codecs();
  codecs.add({.name = "RAW8",
              .suffixes = {"raw8"},
              .sniff = looks_like_raw8,
              .read_header = read_header,
              .decode = decode,
              .encode = encode});

  mr::wds::ShardWriter writer({.pattern = folder + "/raw-%06d.tar"});
  for (int i = 0; i < 3; ++i) {
    auto file = codecs.encode(picture(100 * i % 200), "raw8");
    writer.write({.key = std::to_string(i), .fields = {{file.suffix, std::move(file.data)}}});
  }
  writer.finish();

  auto pipeline =
      mr::pipeline::Pipeline::Builder()
          .shards(folder + "/raw-000000.tar")
          .field(mr::pipeline::ImageField{
              .transforms = {mr::decode::CenterCrop{{4, 3}}},
              .channels = 1,
              .dtype = mr::decode::DType::kUInt8,
              .codecs = std::make_shared<const mr::decode::CodecTable>(std::move(codecs))})
          .batch({.size = 3})
          .build();
  mr::pipeline::Batch batch;
  pipeline.next(batch);
  const auto pixels = batch.field("image").as<std::uint8_t>();  // (3, 4, 3, 1)
  bool right = batch.num_valid == 3;
  for (int i = 0; i < 3; ++i)
    for (int y = 0; y < 4; ++y)
      for (int x = 0; x < 3; ++x)
        right = right && pixels[static_cast<std::size_t>((i * 4 + y) * 3 + x)] ==
                             100 * i % 200 + 10 * (y + 1) + (x + 1);
  std::filesystem::remove_all(folder);
  std::printf("own codec: first pixel %d\n", static_cast<int>(pixels[0]));
  return right ? 0 : 1;
}
