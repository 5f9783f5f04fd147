#include "tools/train/evaluation_files.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "decode/codec.h"
#include "decode/encode.h"
#include "io/base/base64.h"
#include "io/base/bidi.h"
#include "tools/view/picture_facts.h"
#include "tools/view/visible.h"

namespace millrace::tools {
namespace {

using trainer::DetailKind;
using trainer::EvaluationDetails;

constexpr std::size_t kMostRows = 1000;
constexpr std::int64_t kMostMatrix = 30;
constexpr std::size_t kMostPairs = 50;
constexpr std::size_t kMostFirst = 12;
constexpr int kSeenSide = 128;

std::vector<std::string> picture_suffixes() {
  std::vector<std::string> all;
  const std::string suffixes = decode::standard_codecs()->suffixes();
  for (std::size_t at = 0; at < suffixes.size();) {
    const std::size_t end = std::min(suffixes.find(';', at), suffixes.size());
    all.push_back(suffixes.substr(at, end - at));
    at = end + 1;
  }
  return all;
}

/// Where samples are. A picture that was joined from another shard has no place of its own.
class Places {
 public:
  explicit Places(const std::vector<std::string>& shards) {
    for (std::size_t i = 0; i < shards.size(); ++i)
      numbers_.try_emplace(shards[i], static_cast<std::int64_t>(i));
  }

  trainer::SamplePlace of(const wds::Sample& sample) const {
    trainer::SamplePlace place = {-1, -1, -1};
    const auto number = sample.url ? numbers_.find(*sample.url) : numbers_.end();
    if (number == numbers_.end()) return place;
    place[0] = number->second;
    place[1] = static_cast<std::int64_t>(sample.offset);
    for (std::size_t i = 0; i < suffixes_.size() && place[2] < 0; ++i)
      if (const wds::Field* field = sample.find(suffixes_[i]); field != nullptr && !field->url)
        place[2] = static_cast<std::int64_t>(i);
    return place;
  }

 private:
  std::unordered_map<std::string, std::int64_t> numbers_;
  std::vector<std::string> suffixes_ = picture_suffixes();
};

std::string base64_of(const io::Bytes& file) {
  const auto bytes = file.span();
  return base64({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

/// How often a class, or a label, is in the set, was predicted, and both.
struct ClassRow {
  std::int64_t number = 0;
  std::int64_t wanted = 0;
  std::int64_t predicted = 0;
  std::int64_t both = 0;

  double recall() const { return static_cast<double>(both) / static_cast<double>(wanted); }
};

std::vector<ClassRow> class_rows(const EvaluationDetails& details) {
  std::vector<ClassRow> rows(static_cast<std::size_t>(details.classes));
  for (std::size_t i = 0; i < rows.size(); ++i) rows[i].number = static_cast<std::int64_t>(i);
  const auto row = [&](std::int64_t number) -> ClassRow& {
    return rows.at(static_cast<std::size_t>(number));
  };
  for (const auto& [pair, count] : details.counts) {
    const auto& [first, second] = pair;
    if (details.kind == DetailKind::kLabels) {
      row(first).wanted += second >= 2 ? count : 0;
      row(first).predicted += second % 2 == 1 ? count : 0;
      row(first).both += second == 3 ? count : 0;
    } else {
      row(first).wanted += count;
      row(second).predicted += count;
      row(first).both += first == second ? count : 0;
    }
  }
  return rows;
}

/// Those that are found least, of more than a page has room for.
RecordJson rows_json(std::vector<ClassRow> rows) {
  if (rows.size() > kMostRows) {
    std::erase_if(rows, [](const ClassRow& row) { return row.wanted == 0; });
    std::ranges::stable_sort(rows, {}, &ClassRow::recall);
    rows.resize(std::min(rows.size(), kMostRows));
  }
  auto all = RecordJson::array();
  for (const ClassRow& row : rows) all.push_back({row.number, row.wanted, row.predicted, row.both});
  return all;
}

RecordJson matrix_json(const EvaluationDetails& details) {
  const auto size = static_cast<std::size_t>(details.classes);
  std::vector<std::vector<std::int64_t>> rows(size, std::vector<std::int64_t>(size));
  for (const auto& [pair, count] : details.counts)
    rows.at(static_cast<std::size_t>(pair.first)).at(static_cast<std::size_t>(pair.second)) = count;
  return rows;
}

/// The most frequent confusions.
RecordJson pairs_json(const EvaluationDetails& details) {
  using Pair = std::tuple<std::int64_t, std::int64_t, std::int64_t>;
  std::vector<Pair> pairs;
  for (const auto& [pair, count] : details.counts)
    if (pair.first != pair.second) pairs.emplace_back(-count, pair.first, pair.second);
  std::ranges::sort(pairs);
  pairs.resize(std::min(pairs.size(), kMostPairs));
  auto all = RecordJson::array();
  for (const auto& [count, wanted, predicted] : pairs) all.push_back({wanted, predicted, -count});
  return all;
}

RecordJson bins_json(const EvaluationDetails& details) {
  auto bins = RecordJson::array();
  for (const trainer::CalibrationBin& bin : details.bins) {
    const double sum = std::ldexp(static_cast<double>(bin.probability), -32);
    bins.push_back(
        {bin.count, bin.right, bin.count > 0 ? sum / static_cast<double>(bin.count) : 0.0});
  }
  return bins;
}

std::string small_mask_png(const trainer::SmallMask& mask, const DetailNames& names) {
  decode::ClassImage classes{.height = static_cast<int>(mask.height),
                             .width = static_cast<int>(mask.width),
                             .labels = {mask.classes.begin(), mask.classes.end()}};
  return base64_of(decode::encode_png(painted_classes(classes, names.palette)));
}

RecordJson sample_json(const trainer::ScoredSample& sample, const DetailNames& names) {
  static const std::vector<std::string> kSuffixes = picture_suffixes();
  RecordJson json{{"key", sample.key}};
  const auto shard = static_cast<std::size_t>(sample.place[0]);
  const auto suffix = static_cast<std::size_t>(sample.place[2]);
  if (sample.place[0] >= 0 && shard < names.shards.size()) {
    json["shard"] = io::printable_url(names.shards[shard]);
    json["offset"] = sample.place[1];
    if (sample.place[2] >= 0 && suffix < kSuffixes.size())
      json["member"] = sample.key + "." + kSuffixes[suffix];
  }
  json["label"] = sample.label;
  json["predicted"] = sample.predicted;
  json["probability"] = sample.probability;
  json["loss"] = sample.loss;
  if (sample.wanted.classes.empty()) return json;
  json["wanted"] = small_mask_png(sample.wanted, names);
  json["found"] = small_mask_png(sample.found, names);
  return json;
}

RecordJson samples_json(const std::vector<trainer::ScoredSample>& samples,
                        const DetailNames& names) {
  auto all = RecordJson::array();
  for (const trainer::ScoredSample& one : samples) all.push_back(sample_json(one, names));
  return all;
}

const char* kind_word(DetailKind kind) {
  switch (kind) {
    case DetailKind::kClasses:
      return "classes";
    case DetailKind::kLabels:
      return "labels";
    case DetailKind::kMasks:
      return "masks";
    case DetailKind::kNone:
      break;
  }
  return "none";
}

std::string dumped(const RecordJson& json) {
  return with_escaped_bidi(json.dump(-1, ' ', false, RecordJson::error_handler_t::replace)) + "\n";
}

/// One slot's pixels, of bytes or of normalised numbers.
class BatchPictures {
 public:
  BatchPictures(const pipeline::BatchField& field, const ImageOptions& images)
      : field_(field), norm_(images.normalize()) {}

  bool can_draw() const {
    const auto& shape = field_.spec.shape;
    return shape.size() == 4 && (shape[3] == 1 || shape[3] == 3) && !field_.data.empty() &&
           (field_.spec.dtype == decode::DType::kUInt8 ||
            field_.spec.dtype == decode::DType::kFloat32 ||
            field_.spec.dtype == decode::DType::kBFloat16);
  }
  decode::Image of(std::size_t slot) const {
    const auto& shape = field_.spec.shape;
    const auto size = static_cast<std::size_t>(shape[1] * shape[2] * shape[3]);
    std::vector<std::byte> pixels(size);
    for (std::size_t i = 0; i < size; ++i) pixels[i] = level(slot * size + i);
    return {.height = static_cast<int>(shape[1]),
            .width = static_cast<int>(shape[2]),
            .channels = static_cast<int>(shape[3]),
            .pixels = io::Bytes::take(std::move(pixels))};
  }

 private:
  std::byte level(std::size_t at) const {
    if (field_.spec.dtype == decode::DType::kUInt8) return field_.data[at];
    const std::size_t channel = at % static_cast<std::size_t>(field_.spec.shape[3]);
    const auto of = [&](const std::vector<float>& values) {
      return values[std::min(channel, values.size() - 1)];
    };
    const float value = normalised(at) * of(norm_.std) + of(norm_.mean);
    return static_cast<std::byte>(std::clamp(std::lround(value * 255.0F), 0L, 255L));
  }

  /// A bf16 is the upper half of a float.
  float normalised(std::size_t at) const {
    if (field_.spec.dtype == decode::DType::kFloat32) return field_.as<float>()[at];
    return std::bit_cast<float>(std::uint32_t{field_.as<std::uint16_t>()[at]} << 16);
  }

  const pipeline::BatchField& field_;
  decode::Normalize norm_;
};

RecordJson first_batch_json(const pipeline::Batch& batch, const ImageOptions& images) {
  RecordJson json{{"pictures", RecordJson::array()}};
  const auto field = std::ranges::find(batch.fields, "image", &pipeline::BatchField::name);
  if (field == batch.fields.end()) return json;
  const BatchPictures pictures(*field, images);
  if (!pictures.can_draw()) return json;
  for (std::size_t slot = 0; slot < batch.keys.size(); ++slot) {
    if (batch.valid[slot] == 0) continue;
    if (json["pictures"].size() == kMostFirst) break;
    const decode::Image image = shrunk(pictures.of(slot), kSeenSide);
    json["pictures"].push_back({{"key", batch.keys[slot]},
                                {"width", image.width},
                                {"height", image.height},
                                {"jpeg", base64_of(decode::encode_jpeg(image, {.quality = 85}))}});
  }
  return json;
}

}  // namespace

pipeline::FunctionField place_field(const std::vector<std::string>& shards) {
  return {
      .name = trainer::kPlaceField,
      .output = {.dtype = decode::DType::kInt64, .shape = {3}},
      .decode = [places = std::make_shared<const Places>(shards)](
                    const wds::Sample& sample, const decode::SampleId&, std::span<std::byte> slot) {
        const trainer::SamplePlace place = places->of(sample);
        std::memcpy(slot.data(), place.data(), sizeof place);
      }};
}

DetailNames detail_names(const TaskChoice& task, std::int64_t outputs,
                         std::vector<std::string> classes, std::vector<std::string> shards) {
  DetailNames names{.classes = task.names.empty() ? std::move(classes) : task.names,
                    .palette = {class_colour(0), class_colour(1)},
                    .shards = std::move(shards)};
  if (task.has_class_mask()) names.palette = task.palette(outputs);
  if (task.has_mask() && !task.has_class_mask()) names.classes = {"outside", "inside"};
  return names;
}

RecordJson details_json(const EvaluationDetails& details, const DetailNames& names,
                        RecordJson what) {
  RecordJson json = std::move(what);
  json["kind"] = kind_word(details.kind);
  if (details.kind == DetailKind::kNone) return json;
  json["classes"] = details.classes;
  json["samples"] = details.samples;
  json["right"] = details.right();
  json["counted"] = details.counted();
  std::vector<std::string> shown = names.classes;
  shown.resize(std::min(shown.size(), static_cast<std::size_t>(details.classes)));
  if (shown.size() <= kMostRows) json["names"] = shown;
  json["by_class"] = rows_json(class_rows(details));
  if (details.kind != DetailKind::kLabels) {
    if (details.classes <= kMostMatrix)
      json["confusion"] = matrix_json(details);
    else
      json["confused"] = pairs_json(details);
  }
  if (details.kind != DetailKind::kMasks)
    json["calibration"] = {{"error", details.calibration_error()}, {"bins", bins_json(details)}};
  json["worst"] = samples_json(details.worst, names);
  if (details.kind != DetailKind::kMasks) json["mistakes"] = samples_json(details.mistakes, names);
  return json;
}

std::function<void(const pipeline::Batch&)> first_batch_file(RunFolderWriter& files,
                                                             const ImageOptions& images) {
  return [&files, images](const pipeline::Batch& batch) {
    files.write("first-batch.json", first_batch_json(batch, images).dump());
  };
}

EvaluationFiles::EvaluationFiles(const trainer::DetailedObjective& objective,
                                 RunFolderWriter* files, DetailNames names)
    : objective_(objective), files_(files), names_(std::move(names)) {}

void EvaluationFiles::on_evaluation_end(const trainer::EpochEvent& event) {
  text_.clear();
  if (files_ == nullptr || event.epoch == 0) return;  // 0: the check before training
  const EvaluationDetails details = objective_.details();
  text_ = dumped(details_json(details, names_, {{"epoch", event.epoch}}));
  files_->write("evaluation.json", text_);
}

void EvaluationFiles::on_epoch_end(const trainer::EpochEvent& event) {
  if (event.is_best && !text_.empty()) files_->write("evaluation-best.json", text_);
}

}  // namespace millrace::tools
