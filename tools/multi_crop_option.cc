#include "tools/multi_crop_option.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/App.hpp>
#include <algorithm>
#include <utility>

#include "io/base/error.h"

namespace millrace::tools {
namespace {

constexpr int kMostViews = 256;
constexpr std::size_t kAugmentPlace = 2;

/// "'views(2)', column 1: ...".
Error refused(const std::string& calls, const Mistake& mistake) {
  return Error(ErrorCode::kInvalidArgument, fmt::format("--multi-crop: '{}', column {}: {}", calls,
                                                        mistake.begin + 1, mistake.message()));
}

/// The call's own list of transforms, as it was written: sizes that it leaves out are the view's.
const Written* augment_of(const Written& call) {
  for (std::size_t i = 0; i < call.items.size(); ++i) {
    const Written& item = call.items[i];
    if (item.name == "augment" || (item.name.empty() && i == kAugmentPlace)) return &item;
  }
  return nullptr;
}

std::string calls_in(const Written& list) {
  if (list.kind != Written::Kind::kList) return text(list);
  std::vector<std::string> calls;
  for (const Written& one : list.items) {
    Written unnamed = one;
    unnamed.name.clear();
    calls.push_back(text(unnamed));
  }
  return calls.empty() ? "none" : fmt::format("{}", fmt::join(calls, ", "));
}

ImageOptions seen_as(const Written& call, const Views& views, const ImageOptions& usual) {
  ImageOptions own = usual;
  own.size = views.size;
  own.multiple_of = 1;
  own.whole = false;
  own.eval_resize = 0;
  if (const Written* list = augment_of(call)) own.augment = calls_in(*list);
  try {
    own.settle();
    own.check();
  } catch (Error& error) {
    throw Error(error.code(), "--multi-crop " + text(call) + ": " + error.message());
  }
  return own;
}

}  // namespace

const ComponentName Views::kName = {"views", "Views", "Views of each picture, of one size"};

void Views::fields(FieldList& field) {
  field("count", count, {.min = 1, .max = kMostViews}, "How many");
  field("size", size, {.min = 1, .max = 16384, .unit = "px"}, "Height and width, or both");
  field("augment", augment, "Random transforms, each call as in --augment [those of --augment]");
}

void Views::check() const { make(); }

std::unique_ptr<ViewSet> Views::make() const {
  return std::make_unique<ViewSet>(ViewSet{.count = count, .size = size});
}

const Table& MultiCropOption::table() {
  static const TableOf<ViewSet> table = TableOf<ViewSet>("multi-crop").add<Views>();
  return table;
}

CLI::Option* MultiCropOption::declare(CLI::App& app) {
  return app
      .add_option("--multi-crop", text_,
                  "Several views of each picture from one decode, each drawn anew: 'views(2, 224, "
                  "[rrc(area=0.4..1), hflip]), views(8, 96, [rrc(area=0.05..0.4), hflip])'")
      ->type_name("CALLS");
}

std::vector<ImageOptions> MultiCropOption::views(const ImageOptions& usual) const {
  std::vector<ImageOptions> all;
  try {
    for (const Written& call : written_calls(text_).items) {
      const Component component = component_of(call, table());
      const Views& views = *component.get_if<Views>();
      const ImageOptions own = seen_as(call, views, usual);
      all.insert(all.end(), static_cast<std::size_t>(views.count), own);
    }
  } catch (const Mistake& mistake) {
    throw refused(text_, mistake);
  }
  require(!all.empty(), "--multi-crop: give a call, such as views(2, 224)");
  require(all.size() <= kMostViews,
          fmt::format("--multi-crop: {} views; at most {}", all.size(), kMostViews));
  return all;
}

std::vector<pipeline::ImageField> MultiCropOption::fields(const ImageOptions& usual,
                                                          decode::DType dtype) const {
  std::vector<pipeline::ImageField> fields;
  for (const ImageOptions& view : views(usual)) {
    const auto number = static_cast<std::int64_t>(fields.size());
    fields.push_back({.name = fmt::format("view{}", number),
                      .transforms = view.transforms(true, dtype),
                      .channels = view.channels,
                      .dtype = dtype,
                      .view = number});
  }
  return fields;
}

}  // namespace millrace::tools
