#include "decode/image_decoder.h"

#include <utility>

#include "decode/detail/choices.h"
#include "decode/detail/image_source.h"
#include "decode/detail/row_writer.h"
#include "decode/detail/stage_runner.h"
#include "decode/detail/transform_checks.h"
#include "decode/detail/workspace_pool.h"
#include "io/base/check.h"

namespace millrace::decode {
namespace {

using detail::Box;
using detail::Geometry;
using detail::PixelView;
using detail::RowWriter;
using detail::Stage;
using detail::Workspace;

// The largest scale at which the codec still gives as many pixels as the stage asks for.
int scale_for(const Stage& stage) {
  int scale = 8;
  while (scale > 1 &&
         (stage.source.width < stage.width * scale || stage.source.height < stage.height * scale)) {
    scale /= 2;
  }
  return scale;
}

PixelView read_pixels(const detail::ImageSource& source, const Geometry& geometry, int channels,
                      Workspace& workspace) {
  const Stage& stage = geometry.stages().front();
  const bool mirrored = geometry.flipped() && geometry.stages().size() == 1;
  const int scale = source.scalable() ? scale_for(stage) : 1;
  const Box box = workspace.runner.plan(stage, scale, mirrored);
  if (box.width == 0 || box.height == 0) return {.channels = channels};  // padding alone
  return source.read(box, scale, channels, workspace.codec);
}

// Runs the planned stage into `buffer`.
PixelView run_between(const PixelView& input, const Stage& stage, Workspace& workspace,
                      std::vector<std::uint8_t>& buffer) {
  const RowWriter writer(
      {.width = stage.window.width, .height = stage.window.height, .channels = input.channels},
      nullptr);
  const std::size_t stride =
      static_cast<std::size_t>(stage.window.width) * static_cast<std::size_t>(input.channels);
  const auto rows = static_cast<std::size_t>(stage.window.height);
  std::uint8_t* out = detail::reserve_pixels(buffer, stride * rows);
  for (int y = 0; y < stage.window.height; ++y) {
    writer.write(workspace.runner.row(input, y), y, reinterpret_cast<std::byte*>(out),
                 workspace.planes);
  }
  return {.data = out,
          .stride = stride,
          .box = {0, 0, stage.window.width, stage.window.height},
          .channels = input.channels};
}

void run_stages(PixelView view, const Geometry& geometry, const RowWriter& writer,
                Workspace& workspace, std::byte* slot) {
  const auto stages = geometry.stages();
  for (std::size_t i = 0; i + 1 < stages.size(); ++i) {
    view = run_between(view, stages[i], workspace, workspace.between[i % 2]);
    const bool last = i + 2 == stages.size();
    workspace.runner.plan(stages[i + 1], 1, last && geometry.flipped());
  }
  for (int y = 0; y < writer.format().height; ++y) {
    writer.write(workspace.runner.row(view, y), y, slot, workspace.planes);
  }
}

RowWriter writer_for(const ImageDecoderOptions& options) {
  const auto size = detail::output_size(options.transforms);
  return RowWriter({.width = size.width,
                    .height = size.height,
                    .channels = options.channels,
                    .dtype = options.dtype,
                    .layout = options.layout},
                   detail::find_normalize(options.transforms));
}

ArraySpec spec_of(const RowWriter::Format& format) {
  if (format.layout == Layout::kHWC) {
    return {format.dtype, {format.height, format.width, format.channels}};
  }
  return {format.dtype, {format.channels, format.height, format.width}};
}

}  // namespace

struct ImageDecoder::Plan {
  explicit Plan(ImageDecoderOptions given)
      : options(std::move(given)), writer(writer_for(options)), output(spec_of(writer.format())) {}

  ImageDecoderOptions options;
  RowWriter writer;
  ArraySpec output;
  mutable detail::WorkspacePool workspaces;
};

ImageDecoder::ImageDecoder(const ImageDecoderOptions& options) {
  detail::check_transforms(options);
  plan_ = std::make_unique<const Plan>(options);
}

ImageDecoder::~ImageDecoder() = default;
ImageDecoder::ImageDecoder(ImageDecoder&&) noexcept = default;
ImageDecoder& ImageDecoder::operator=(ImageDecoder&&) noexcept = default;

const ArraySpec& ImageDecoder::output() const { return plan_->output; }

void ImageDecoder::decode(const io::Bytes& encoded, const SampleId& id,
                          std::span<std::byte> slot) const {
  const ImageDecoderOptions& options = plan_->options;
  MILLRACE_DCHECK(slot.size() == plan_->output.num_bytes(), "the slot holds exactly one image");
  const detail::ImageSource source(encoded.span(), options.limits, options.tolerate_truncated);
  const Geometry geometry =
      detail::choose_geometry(options.transforms, source.width(), source.height(), id);
  const auto lease = plan_->workspaces.acquire();
  Workspace& workspace = *lease;
  const PixelView view = read_pixels(source, geometry, options.channels, workspace);
  run_stages(view, geometry, plan_->writer, workspace, slot.data());
}

}  // namespace millrace::decode
