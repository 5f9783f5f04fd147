// COCO's JSON: images, annotations of them, and the categories that these name.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <map>
#include <numeric>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "decode/encode.h"
#include "decode/image.h"
#include "decode/limits.h"
#include "io/base/error.h"
#include "io/base/json.h"
#include "io/base/text.h"
#include "tools/create/coco_mask.h"
#include "tools/create/file_identities.h"
#include "tools/create/formats/formats.h"
#include "tools/create/keys.h"
#include "tools/create/record_values.h"

namespace millrace::tools {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr std::int64_t kVoid = 255;

struct CocoObject {
  std::int64_t category = -1;      ///< number of its class; -1: it has none, as captions
  std::array<double, 4> box = {};  ///< x, y, width, height
  bool boxed = false;
  double area = 0;
  bool crowd = false;
  MaskArea mask = {};
  std::string caption = {};
  std::vector<double> keypoints = {};
};

struct CocoImage {
  std::int64_t id = 0;
  std::string file;  ///< as the JSON names it
  int width = 0;     ///< 0: the JSON does not say
  int height = 0;
  std::vector<CocoObject> objects = {};
};

/// A mask's class 0, which no object has.
constexpr const char* kBackgroundClass = "background";

const Json& list_in(const Json& json, const char* name) {
  if (!json.is_object() || !json.contains(name) || !json[name].is_array())
    throw Error(ErrorCode::kCorrupt, fmt::format("not COCO's JSON: it has no list of {}", name));
  return json[name];
}

std::int64_t integer_in(const Json& json, const char* name) {
  if (!json.is_object() || !json.contains(name))
    throw Error(ErrorCode::kCorrupt, fmt::format("no {}", name));
  return json_integer<std::int64_t>(json[name], name);
}

std::vector<double> numbers_in(const Json& list, const char* name) {
  std::vector<double> numbers;
  for (const Json& number : list) {
    if (!number.is_number() || !std::isfinite(number.get<double>()))
      throw Error(ErrorCode::kCorrupt, fmt::format("{}: not a number", name));
    numbers.push_back(number.get<double>());
  }
  return numbers;
}

/// Runs `work` and adds the entry of the list to what it throws.
template <typename Work>
void at_entry(const char* list, std::size_t index, const Work& work) {
  try {
    work();
  } catch (const Error& error) {
    throw Error(error.code(), fmt::format("{} {}: {}", list, index, error.message()),
                error.where());
  }
}

/// The file's content.
class CocoSet {
 public:
  CocoSet(const Json& json, MaskKind masks)
      : masks_(masks != MaskKind::kNone), background_(masks == MaskKind::kClasses) {
    if (background_) classes.emplace_back(kBackgroundClass);
    read_categories(json);
    read_images(list_in(json, "images"));
    const Json& annotations = list_in(json, "annotations");
    for (std::size_t i = 0; i < annotations.size(); ++i)
      at_entry("annotation", i, [&] { add_object(annotations[i]); });
  }

  std::vector<CocoImage> images;
  std::vector<std::string> classes;

 private:
  /// Numbered in the order of their ids, which have gaps; behind the background if masks have one.
  void read_categories(const Json& json) {
    if (!json.is_object() || !json.contains("categories")) return;
    std::map<std::int64_t, std::string> names;
    const Json& list = list_in(json, "categories");
    for (std::size_t i = 0; i < list.size(); ++i)
      at_entry("category", i, [&] {
        const std::int64_t id = integer_in(list[i], "id");
        if (!list[i].contains("name") || !list[i]["name"].is_string())
          throw Error(ErrorCode::kCorrupt, "no name");
        if (!names.emplace(id, list[i]["name"].get<std::string>()).second)
          throw Error(ErrorCode::kCorrupt, fmt::format("a second one of id {}", id));
      });
    for (const auto& [id, name] : names) categories_[id] = number_of(name);
  }

  /// A category that is named as the background is it.
  std::int64_t number_of(const std::string& name) {
    if (background_ && name == kBackgroundClass) return 0;
    if (!names_.insert(name).second)
      throw Error(ErrorCode::kCorrupt, fmt::format("two categories are named {}", printable(name)));
    classes.push_back(name);
    return static_cast<std::int64_t>(classes.size()) - 1;
  }

  void read_images(const Json& list) {
    for (std::size_t i = 0; i < list.size(); ++i)
      at_entry("image", i, [&] {
        const Json& json = list[i];
        CocoImage image{.id = integer_in(json, "id"), .file = {}};
        if (!json.contains("file_name") || !json["file_name"].is_string())
          throw Error(ErrorCode::kCorrupt, "no file_name");
        image.file = json["file_name"].get<std::string>();
        constexpr int kMostPixels = 1 << 16;
        if (json.contains("width"))
          image.width = json_integer<int>(json["width"], "width", 1, kMostPixels);
        if (json.contains("height"))
          image.height = json_integer<int>(json["height"], "height", 1, kMostPixels);
        if (masks_ && (image.width == 0 || image.height == 0))
          throw Error(ErrorCode::kCorrupt, "masks need the image's width and height");
        if (masks_) decode::check_pixels(image.width, image.height, {});
        if (!by_id_.emplace(image.id, images.size()).second)
          throw Error(ErrorCode::kCorrupt, fmt::format("a second one of id {}", image.id));
        images.push_back(std::move(image));
      });
  }

  void add_object(const Json& json) {
    if (json.contains("id") && json["id"].is_number_integer() &&
        !annotations_.insert(integer_in(json, "id")).second)
      throw Error(ErrorCode::kCorrupt, fmt::format("a second one of id {}", json["id"].dump()));
    const std::int64_t id = integer_in(json, "image_id");
    const auto image = by_id_.find(id);
    if (image == by_id_.end())
      throw Error(ErrorCode::kCorrupt, fmt::format("no image has id {}", id));
    CocoImage& owner = images[image->second];
    CocoObject object;
    if (json.contains("category_id"))
      object.category = category_of(integer_in(json, "category_id"));
    if (json.contains("bbox")) set_box(json["bbox"], owner, object);
    if (json.contains("area") && json["area"].is_number()) object.area = json["area"].get<double>();
    if (json.contains("iscrowd")) object.crowd = integer_in(json, "iscrowd") != 0;
    if (json.contains("caption") && json["caption"].is_string())
      object.caption = json["caption"].get<std::string>();
    if (json.contains("keypoints") && json["keypoints"].is_array())
      object.keypoints = numbers_in(json["keypoints"], "keypoints");
    const bool draws = json.contains("segmentation") && (masks_ || is_unboxed(object));
    if (draws) object.mask = mask_area(json["segmentation"], owner.height, owner.width);
    if (is_unboxed(object)) box_the_mask(object, owner.height);
    owner.objects.push_back(std::move(object));
  }

  std::int64_t category_of(std::int64_t id) const {
    const auto found = categories_.find(id);
    if (found == categories_.end())
      throw Error(ErrorCode::kCorrupt, fmt::format("no category has id {}", id));
    return found->second;
  }

  static void set_box(const Json& json, const CocoImage& owner, CocoObject& object) {
    const auto numbers = json.is_array() ? numbers_in(json, "bbox") : std::vector<double>();
    if (numbers.size() != 4) throw Error(ErrorCode::kCorrupt, "bbox: not four numbers");
    if (numbers[2] < 0 || numbers[3] < 0)
      throw Error(ErrorCode::kCorrupt,
                  fmt::format("bbox: a negative side: {}, {}", numbers[2], numbers[3]));
    std::copy(numbers.begin(), numbers.end(), object.box.begin());
    check_inside(owner, object.box);
    object.boxed = true;
  }

  /// Annotators' boxes end a little outside; one that is not in the picture at all is of another.
  static void check_inside(const CocoImage& owner, const std::array<double, 4>& box) {
    const auto misses = [](double from, double side, int pixels) {
      return pixels > 0 && (from >= pixels || (side > 0 && from + side <= 0));
    };
    if (misses(box[0], box[2], owner.width) || misses(box[1], box[3], owner.height))
      throw Error(ErrorCode::kCorrupt,
                  fmt::format("bbox {}: outside of its image, which is {} x {} (width x height)",
                              fmt::join(box, ", "), owner.width, owner.height));
  }

  /// An object that readers would find no box of.
  static bool is_unboxed(const CocoObject& object) { return !object.boxed && object.category >= 0; }

  static void box_the_mask(CocoObject& object, int height) {
    const auto bounds = bounds_of(object.mask, height);
    if (!bounds) throw Error(ErrorCode::kCorrupt, "neither a bbox nor a segmentation");
    object.box = *bounds;
    object.boxed = true;
  }

  bool masks_;
  bool background_;
  std::unordered_set<std::string> names_;
  std::unordered_set<std::int64_t> annotations_;  ///< the ids of those that were read
  std::map<std::int64_t, std::int64_t> categories_;
  std::unordered_map<std::int64_t, std::size_t> by_id_;
};

Json objects_json(const CocoImage& image) {
  Json json = {{"image_id", image.id}};
  if (image.width > 0) json["width"] = image.width;
  if (image.height > 0) json["height"] = image.height;
  std::vector<std::string> captions;
  Json keypoints = Json::array();
  for (const char* name : {"boxes", "labels", "areas", "crowd"}) json[name] = Json::array();
  for (const CocoObject& object : image.objects) {
    if (!object.caption.empty()) captions.push_back(object.caption);
    if (!object.keypoints.empty()) keypoints.push_back(object.keypoints);
    if (!object.boxed && object.category < 0) continue;
    json["boxes"].push_back(object.box);
    json["labels"].push_back(object.category);
    json["areas"].push_back(object.area);
    json["crowd"].push_back(object.crowd ? 1 : 0);
  }
  if (!captions.empty()) json["captions"] = captions;
  if (!keypoints.empty()) json["keypoints"] = keypoints;
  return json;
}

/// The larger ones first, so that none is hidden; crowds before all.
std::vector<std::size_t> painting_order(const std::vector<CocoObject>& objects) {
  std::vector<std::size_t> order(objects.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    if (objects[a].crowd != objects[b].crowd) return objects[a].crowd;
    return objects[a].area > objects[b].area;
  });
  return order;
}

io::Bytes coco_mask_png(const CocoImage& image, MaskKind kind) {
  decode::ClassImage mask{.height = image.height, .width = image.width, .labels = {}};
  mask.labels.resize(static_cast<std::size_t>(image.height) *
                     static_cast<std::size_t>(image.width));
  for (const std::size_t i : painting_order(image.objects)) {
    const CocoObject& object = image.objects[i];
    const std::int64_t label = kind == MaskKind::kInstances ? static_cast<std::int64_t>(i) + 1
                               : object.crowd               ? kVoid
                                                            : object.category;
    if (label >= 0) paint(object.mask, label, mask);
  }
  return decode::encode_mask_png(mask);
}

class CocoSource final : public SampleSource {
 public:
  explicit CocoSource(const SourceRequest& request)
      : request_(request),
        root_(request.root.empty() ? fs::path(request.paths.front()).parent_path().string()
                                   : request.root),
        set_(open_set(request)) {
    request_.recoding.upright = false;
    if (request.masks == MaskKind::kClasses && set_.classes.size() > kVoid)
      throw Error(ErrorCode::kUnsupported,
                  "masks of more than 254 classes and the background: --masks instances",
                  {.url = request.paths.front()});
    FolderFence fence(root_, request.outside);
    for (const CocoImage& image : set_.images) look_at(image, fence);
    check_keys(
        size(), [this](std::uint64_t i) { return key_of_path(set_.images[i].file); },
        [this](std::uint64_t i) { return place(set_.images[i]); });
  }

  std::uint64_t size() const override { return set_.images.size(); }
  std::vector<std::string> classes() const override { return set_.classes; }

  void identify(Sha256& into) const override {
    identify_file(request_.paths.front(), into);
    identify_files(
        size(), [this](std::uint64_t i) { return path_of(set_.images[i]); }, into);
  }

  wds::Sample make(std::uint64_t index) const override {
    const CocoImage& image = set_.images[index];
    wds::Sample sample;
    sample.key = key_of_path(image.file);
    sample.fields.push_back(make_field("json", io::Bytes::copy_of(objects_json(image).dump())));
    sample.fields.push_back(image_field(path_of(image), request_.recoding,
                                        [&](const io::Bytes& file) { check_size(image, file); }));
    if (request_.masks != MaskKind::kNone)
      sample.fields.push_back(make_field("mask.png", coco_mask_png(image, request_.masks)));
    return sample;
  }

 private:
  static CocoSet open_set(const SourceRequest& request) {
    const std::string& path = request.paths.front();
    try {
      return {read_index_json(path), request.masks};
    } catch (Error& error) {
      error.annotate({.url = path});
      throw;
    }
  }

  /// Boxes and masks are of the size that the JSON names. What is no picture is not told apart
  /// here.
  void check_size(const CocoImage& image, const io::Bytes& file) const {
    if (image.width == 0 && image.height == 0) return;
    decode::ImageSize size;
    try {
      size = decode::image_size(file, {.apply_orientation = false});
    } catch (const Error&) {
      return;
    }
    if ((image.width == 0 || image.width == size.width) &&
        (image.height == 0 || image.height == size.height))
      return;
    throw Error(ErrorCode::kCorrupt,
                fmt::format("{}: {} x {} in the JSON (width x height), {} x {} in the file",
                            place(image), image.width, image.height, size.width, size.height));
  }

  std::string path_of(const CocoImage& image) const {
    return (fs::path(root_) / image.file).string();
  }
  std::string place(const CocoImage& image) const {
    return fmt::format("{} image {}", request_.paths.front(), image.id);
  }

  void look_at(const CocoImage& image, FolderFence& fence) const {
    std::error_code ignored;
    const std::string path = path_of(image);
    if (!fs::is_regular_file(path, ignored))
      throw Error(ErrorCode::kNotFound,
                  place(image) + ": no file is " + printable(path, 400) +
                      (request_.root.empty() ? "; --root names the folder" : ""));
    try {
      fence.check(path);
    } catch (const Error& error) {
      throw Error(error.code(), place(image) + ": " + error.message());
    }
    if (key_of_path(image.file).empty())
      throw Error(ErrorCode::kCorrupt, place(image) + ": an empty key");
    for (const CocoObject& object : image.objects)
      if (!is_utf8(object.caption))
        throw Error(ErrorCode::kCorrupt, place(image) + ": text that is not UTF-8");
  }

  SourceRequest request_;
  std::string root_;
  CocoSet set_;
};

}  // namespace

std::unique_ptr<SampleSource> open_coco_source(const SourceRequest& request) {
  return std::make_unique<CocoSource>(request);
}

}  // namespace millrace::tools
