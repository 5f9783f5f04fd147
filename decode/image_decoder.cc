#include "decode/image_decoder.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <tuple>
#include <utility>

#include "decode/detail/class_reader.h"
#include "decode/detail/image_source.h"
#include "decode/detail/picture_reader.h"
#include "decode/detail/row_writer.h"
#include "decode/detail/stage_runner.h"
#include "decode/detail/transform_list.h"
#include "decode/detail/workspace_pool.h"
#include "io/base/check.h"
#include "io/base/error.h"

namespace millrace::decode {
namespace {

using detail::RowWriter;
using detail::TransformList;
using detail::Workspace;

// The largest scale at which the codec still returns as many pixels as the stage needs.
int scale_for(const Stage& stage) {
  int scale = 8;
  while (scale > 1 &&
         (stage.source.width < stage.width * scale || stage.source.height < stage.height * scale)) {
    scale /= 2;
  }
  return scale;
}

/// Of a picture, as turned, and of its stored levels.
struct StoredSize {
  int width = 0;
  int height = 0;
  int level_bytes = 1;
};

enum class Fills { kNo, kYes };  // whether borders have the colour that transforms say

// The context of decoding one image.
struct Run {
  const ImageDecoderOptions& options;
  const detail::PictureReader& pictures;
  const detail::ClassReader* classes;  // for a mask, else null
  const Geometry& geometry;
  Workspace& workspace;

  bool nearest(const Stage& stage) const {
    return detail::StageRunner::interpolation_of(stage, options.interpolation) ==
           Interpolation::kNearest;
  }

  Box plan(std::size_t stage, int scale, Fills fills = Fills::kYes) const {
    const auto stages = geometry.stages();
    const bool last = stage + 1 == stages.size();
    return workspace.runner.plan(
        stages[stage],
        {.scale = scale,
         .mirrored = last && geometry.flipped(),
         .mirrored_vertically = last && geometry.flipped_vertically(),
         .interpolation = options.interpolation,
         .fills = fills == Fills::kYes && options.interpolation != Interpolation::kNearest});
  }
};

PixelView read_pixels(std::span<const std::byte> encoded, const detail::ImageSource& source,
                      const Run& run) {
  const Stage& first = run.geometry.stages().front();
  const bool scales = source.header().scalable && !run.nearest(first) && !first.sampling;
  const int scale = scales ? scale_for(first) : 1;
  const Box box = run.plan(0, scale);
  if (box.width == 0 || box.height == 0)  // only padding
    return {.channels = run.pictures.channels()};
  return run.pictures.read(encoded, source, box, scale, run.workspace.source);
}

// Runs the planned stage, whose window is width × height, into `buffer`.
PixelView run_into(std::vector<std::uint8_t>& buffer, const PixelView& input, int width, int height,
                   detail::StageRunner& runner) {
  const std::size_t stride =
      static_cast<std::size_t>(width) * static_cast<std::size_t>(input.channels);
  std::uint8_t* out = detail::reserve_pixels(buffer, stride * static_cast<std::size_t>(height));
  const PixelView output{
      .data = out, .stride = stride, .box = {0, 0, width, height}, .channels = input.channels};
  for (int y = 0; y < height; ++y, out += stride) std::memcpy(out, runner.row(input, y), stride);
  return output;
}

// Runs all stages except the last, which is only planned; returns the last one's input.
PixelView run_stages_but_last(PixelView view, const Run& run, Fills fills = Fills::kYes) {
  const auto stages = run.geometry.stages();
  for (std::size_t i = 0; i + 1 < stages.size(); ++i) {
    const Box& window = stages[i].window;
    view = run_into(run.workspace.between[i % 2], view, window.width, window.height,
                    run.workspace.runner);
    run.plan(i + 1, 1, fills);
  }
  return view;
}

void write_rows(const PixelView& view, const RowWriter& writer, Workspace& workspace,
                std::byte* slot) {
  for (int y = 0; y < writer.format().height; ++y) {
    writer.write(workspace.runner.row(view, y), y, slot, workspace.planes);
  }
}

/// Fills what is outside of `content` with `value`.
void fill_padding(const Box& content, float value, const RowWriter::Format& format,
                  std::byte* slot) {
  if (content == Box{0, 0, format.width, format.height}) return;
  const bool planar = format.layout == Layout::kCHW;
  const int each = planar ? 1 : format.channels;
  const int rows = planar ? format.height * format.channels : format.height;
  auto* row = reinterpret_cast<float*>(slot);
  for (int line = 0; line < rows; ++line, row += std::ptrdiff_t{format.width} * each) {
    const int y = line % format.height;
    const bool shows = y >= content.y && y < content.y + content.height;
    const int from = shows ? content.x * each : format.width * each;
    const int to = shows ? (content.x + content.width) * each : format.width * each;
    std::fill(row, row + from, value);
    std::fill(row + to, row + std::ptrdiff_t{format.width} * each, value);
  }
}

/// Gives `value` to the pixels that show nothing of the picture, or not it alone. It is sent
/// through the geometry as a white picture.
void fill_unseen(const Run& run, float value, const RowWriter::Format& format, std::byte* slot) {
  const Box box = run.plan(0, 1, Fills::kNo);
  const auto width = static_cast<std::size_t>(box.width);
  const std::vector<std::uint8_t> white(
      width * static_cast<std::size_t>(box.height) + detail::kPadding, 255);
  const PixelView all = {.data = white.data(), .stride = width, .box = box, .channels = 1};
  const PixelView view = run_stages_but_last(all, run, Fills::kNo);
  const std::size_t pixels =
      static_cast<std::size_t>(format.width) * static_cast<std::size_t>(format.height);
  const bool planar = format.layout == Layout::kCHW;
  const auto channels = static_cast<std::size_t>(format.channels);
  auto* out = reinterpret_cast<float*>(slot);
  for (int y = 0; y < format.height; ++y) {
    const std::uint8_t* row = run.workspace.runner.row(view, y);
    for (int x = 0; x < format.width; ++x) {
      if (row[x] == 255) continue;
      const auto at = static_cast<std::size_t>(y) * static_cast<std::size_t>(format.width) +
                      static_cast<std::size_t>(x);
      for (std::size_t c = 0; c < channels; ++c)
        out[planar ? c * pixels + at : at * channels + c] = value;
    }
  }
}

template <typename Label>
void write_classes(const PixelView& view, const detail::ClassReader& reader,
                   const RowWriter::Format& format, detail::StageRunner& runner, std::byte* slot) {
  const auto width = static_cast<std::size_t>(format.width);
  auto* out = reinterpret_cast<Label*>(slot);
  for (int y = 0; y < format.height; ++y, out += width)
    reader.write(runner.row(view, y), std::span<Label>{out, width});
}

// What was written as levels becomes values.
void scale_levels(const GreyValues& values, int level_bytes, std::span<std::byte> slot) {
  const int largest = level_bytes == 2 ? 65535 : 255;
  const auto one = static_cast<float>(values.one > 0 ? values.one : largest);
  const auto none = static_cast<float>(values.none);
  const std::span levels(reinterpret_cast<float*>(slot.data()), slot.size() / sizeof(float));
  for (float& level : levels) {
    const bool has_none = values.none >= 0 && level == none;
    level = has_none ? std::numeric_limits<float>::quiet_NaN() : std::max(level, 0.0F) / one;
  }
}

// A change of levels may need the whole picture before the first row can be written.
void write_changed(const PixelView& view, const RowWriter& writer, const TransformList& transforms,
                   Workspace& workspace, std::byte* slot) {
  const RowWriter::Format& format = writer.format();
  const PixelView picture =
      run_into(workspace.picture, view, format.width, format.height, workspace.runner);
  const std::size_t size = picture.stride * static_cast<std::size_t>(format.height);
  Pixels pixels{.levels = std::span(workspace.picture).first(size),
                .height = format.height,
                .width = format.width,
                .channels = format.channels};
  transforms.change(pixels, workspace.draws);
  for (int y = 0; y < format.height; ++y) writer.write(picture.row(y), y, slot, workspace.planes);
}

ImageDecoderOptions with_codecs(ImageDecoderOptions options) {
  if (!options.codecs) options.codecs = standard_codecs();
  return options;
}

RowWriter writer_for(const ImageDecoderOptions& options, const TransformList& transforms) {
  const Extent size = transforms.output();
  return RowWriter({.width = size.width,
                    .height = size.height,
                    .channels = options.channels,
                    .dtype = options.dtype,
                    .layout = options.layout},
                   transforms.scale());
}

/// Throws: InvalidArgument.
void check_options(const ImageDecoderOptions& options, const TransformList& transforms) {
  const bool plain = options.channels == 1 && options.interpolation == Interpolation::kNearest;
  require(options.channels == 1 || options.channels == 3 || options.channels == 4,
          "images have 1, 3 or 4 channels");
  require(!options.palette_indices || plain,
          "palette indices have 1 channel, and are resized to the nearest");
  const bool stored = plain && !options.palette_indices && !transforms.changes_pixels();
  require(!options.classes || (stored && options.dtype == DType::kInt64),
          "a mask of classes is int64 with 1 channel, resized to the nearest, its colours "
          "unchanged");
  require(options.dtype != DType::kUInt16 || stored,
          "uint16 images have 1 channel, and are resized to the nearest, their levels unchanged");
  const bool unchanged = !transforms.changes_pixels() && transforms.scale() == nullptr;
  require(!options.values || (options.channels == 1 && options.dtype == DType::kFloat32 &&
                              !options.palette_indices && unchanged),
          "grey values are float32 with 1 channel, and no transform changes or normalises them");
  require(!options.values || (options.values->one >= 0 && options.values->one <= 65535 &&
                              options.values->none >= -1 && options.values->none <= 65535),
          "the levels of grey values are 0 to 65535");
  require(transforms.scale() == nullptr || options.dtype == DType::kFloat32 ||
              options.dtype == DType::kBFloat16 || options.dtype == DType::kFloat16,
          "only float32, bfloat16 and float16 images can be normalised");
  require(options.interpolation != Interpolation::kRandom,
          "a random interpolation is a transform's");
  require(!options.padding || options.dtype == DType::kFloat32,
          "only float32 images have a value of their own for what is padded");
  transforms.check_channels(options.channels);
}

const ImageDecoderOptions& checked(const ImageDecoderOptions& options,
                                   const TransformList& transforms) {
  check_options(options, transforms);
  return options;
}

ImageDecoderOptions with_nearest(ImageDecoderOptions options) {
  options.interpolation = Interpolation::kNearest;
  return options;
}

ArraySpec spec_of(const RowWriter::Format& format) {
  if (format.layout == Layout::kHWC) {
    return {format.dtype, {format.height, format.width, format.channels}};
  }
  return {format.dtype, {format.channels, format.height, format.width}};
}

}  // namespace

// Tables of colours are not compared: each mask is decoded by itself.
bool decode_alike(const ImageDecoderOptions& one, const ImageDecoderOptions& other) {
  const auto facts = [](const ImageDecoderOptions& of) {
    const Limits& limits = of.limits;
    return std::tuple(of.channels, of.palette_indices, of.apply_orientation, of.tolerate_truncated,
                      of.dtype == DType::kUInt16, of.codecs ? of.codecs : standard_codecs(),
                      limits.max_pixels, limits.max_scans, limits.max_unpacked_bytes,
                      limits.max_ratio);
  };
  return !one.classes && !other.classes && !one.values && !other.values &&
         facts(one) == facts(other);
}

struct ImageDecoder::Plan {
  enum class Levels { kScaled, kKept };

  explicit Plan(ImageDecoderOptions given, Levels of_picture = Levels::kScaled)
      : options(with_codecs(std::move(given))),
        keeps_levels(of_picture == Levels::kKept),
        transforms(options.transforms),
        writer(writer_for(checked(options, transforms), transforms)),
        output(spec_of(writer.format())),
        source{.header = {.limits = options.limits,
                          .tolerate_truncated = options.tolerate_truncated,
                          .numbers = options.palette_indices ? Numbers::kPalette : Numbers::kNone},
               .apply_orientation = options.apply_orientation,
               .codecs = options.codecs.get()} {
    set_classes();
    pictures.emplace(options, classes ? &*classes : nullptr);
    if (options.values && !keeps_levels)
      levels = std::make_unique<const Plan>(with_nearest(options), Levels::kKept);
  }

  // Grey levels of 16 bits go the way of class numbers, which keeps them as they are.
  void set_classes() {
    if (keeps_levels)
      classes.emplace(ClassMask{.ignore = -1}, "picture of grey values");
    else if (options.dtype == DType::kUInt16)
      classes.emplace(ClassMask{.ignore = 0}, "uint16 picture");
    else if (options.classes)
      classes.emplace(*options.classes);
    else
      return;
    source.header.numbers = classes->numbers();
  }

  /// `picture` is of `encoded`, opened with `source`.
  Tidiness decode(const detail::ImageSource& picture, const io::Bytes& encoded, const SampleId& id,
                  std::span<std::byte> slot) const;
  template <typename Read>
  void draw(const StoredSize& size, const SampleId& id, Workspace& workspace,
            std::span<std::byte> slot, const Read& read) const;

  ImageDecoderOptions options;
  bool keeps_levels;
  TransformList transforms;
  RowWriter writer;
  ArraySpec output;
  detail::SourceOptions source;
  std::optional<detail::ClassReader> classes;  ///< or of uint16, or of levels that are kept
  std::optional<detail::PictureReader> pictures;
  mutable detail::WorkspacePool workspaces;
  std::unique_ptr<const Plan> levels;  ///< of pictures whose levels are kept; null: there are none
};

ImageDecoder::ImageDecoder(const ImageDecoderOptions& options)
    : plan_(std::make_unique<const Plan>(options)) {}

ImageDecoder::~ImageDecoder() = default;
ImageDecoder::ImageDecoder(ImageDecoder&&) noexcept = default;
ImageDecoder& ImageDecoder::operator=(ImageDecoder&&) noexcept = default;

const ArraySpec& ImageDecoder::output() const { return plan_->output; }

/// Draws what the transforms choose of a picture of this size, and fills `slot` with it. `read`:
/// the pixels that the first stage of a Run needs, which it plans.
template <typename Read>
void ImageDecoder::Plan::draw(const StoredSize& size, const SampleId& id, Workspace& workspace,
                              std::span<std::byte> slot, const Read& read) const {
  MILLRACE_DCHECK(slot.size() == output.num_bytes(), "the slot holds exactly one image");
  transforms.start(id, workspace.draws);
  const Geometry geometry = transforms.choose(size.width, size.height, workspace.draws);
  const Run run{options, *pictures, classes ? &*classes : nullptr, geometry, workspace};
  const PixelView view = run_stages_but_last(read(run), run);
  const RowWriter::Format& format = writer.format();
  if (run.classes != nullptr && format.dtype == DType::kUInt16) {
    write_classes<std::uint16_t>(view, *run.classes, format, workspace.runner, slot.data());
  } else if (keeps_levels) {
    write_classes<float>(view, *run.classes, format, workspace.runner, slot.data());
    scale_levels(*options.values, size.level_bytes, slot);
  } else if (run.classes != nullptr) {
    write_classes<std::int64_t>(view, *run.classes, format, workspace.runner, slot.data());
  } else if (transforms.changes_pixels()) {
    write_changed(view, writer, transforms, workspace, slot.data());
  } else {
    write_rows(view, writer, workspace, slot.data());
  }
  if (options.padding && geometry.samples())
    fill_unseen(run, *options.padding, format, slot.data());
  else if (options.padding)
    fill_padding(geometry.content(options.interpolation), *options.padding, format, slot.data());
}

Tidiness ImageDecoder::Plan::decode(const detail::ImageSource& picture, const io::Bytes& encoded,
                                    const SampleId& id, std::span<std::byte> slot) const {
  const auto lease = workspaces.acquire();
  std::string& untidy = (*lease).source.codec.untidy;
  untidy.clear();  // an image of padding only reads nothing
  draw({picture.width(), picture.height(), picture.header().level_bytes}, id, *lease, slot,
       [&](const Run& run) { return read_pixels(encoded.span(), picture, run); });
  return untidy.empty() ? Tidiness::kTidy : Tidiness::kUntidy;
}

Tidiness ImageDecoder::decode(const io::Bytes& encoded, const SampleId& id,
                              std::span<std::byte> slot) const {
  const Plan* const levels = plan_->levels.get();
  const auto open = [&](const Plan& plan) {
    return detail::ImageSource(encoded.span(), plan.source);
  };
  if (levels != nullptr && plan_->options.values != GreyValues())
    return levels->decode(open(*levels), encoded, id, slot);
  const detail::ImageSource picture = open(*plan_);
  if (levels != nullptr && picture.header().level_bytes > 1)
    if (const auto deep = open(*levels); deep.header().numbers)  // grey
      return levels->decode(deep, encoded, id, slot);
  return plan_->decode(picture, encoded, id, slot);
}

WholePicture ImageDecoder::read_whole(const io::Bytes& encoded,
                                      detail::SourceWorkspace& workspace) const {
  const detail::ImageSource source(encoded.span(), plan_->source);
  workspace.codec.untidy.clear();
  WholePicture whole{.width = source.width(), .height = source.height()};
  whole.pixels = plan_->pictures->read(encoded.span(), source, {0, 0, whole.width, whole.height}, 1,
                                       workspace);
  if (!workspace.codec.untidy.empty()) whole.tidiness = Tidiness::kUntidy;
  return whole;
}

void ImageDecoder::decode_whole(const WholePicture& whole, const SampleId& id,
                                std::span<std::byte> slot) const {
  const auto lease = plan_->workspaces.acquire();
  plan_->draw({whole.width, whole.height}, id, *lease, slot, [&](const Run& run) {
    const Box box = run.plan(0, 1);
    if (box.width > 0 && box.height > 0) return whole.pixels;
    return PixelView{.channels = run.pictures.channels()};  // only padding
  });
}

}  // namespace millrace::decode
