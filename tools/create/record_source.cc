#include "tools/create/record_source.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <optional>
#include <set>
#include <type_traits>
#include <utility>

#include "decode/boxes.h"
#include "decode/codec.h"
#include "io/base/error.h"
#include "io/base/text.h"
#include "tools/create/class_labels.h"
#include "tools/create/file_identities.h"
#include "tools/create/keys.h"
#include "tools/create/local_file.h"
#include "tools/resized_partners.h"
#include "wds/in_column.h"
#include "wds/member_name.h"

namespace millrace::tools {
namespace {

constexpr double kMostLabel = 0x1p53;  // up to here a double is exact

using Columns = std::vector<std::size_t>;
using Values = std::vector<RecordValue>;

bool is_text(const io::Bytes& data) {
  const auto control = [](char c) {
    return (c >= 0 && c < ' ' && c != '\n' && c != '\t') || c == 127;
  };
  const std::string_view text = data.text();
  return is_utf8(text) && std::none_of(text.begin(), text.end(), control);
}

/// A number as people write it, a text as it is.
std::string record_text(const RecordValue& value) {
  if (value.files.size() == 1 && !value.is_list) {
    if (!is_text(value.files.front().data)) throw Error(ErrorCode::kCorrupt, "not a text");
    return std::string(value.files.front().data.text());
  }
  if (!value.files.empty() || value.json.is_structured() || value.json.is_null())
    throw Error(ErrorCode::kCorrupt, value.is_null() ? "no value" : "neither a number nor a text");
  return value.json.is_string() ? value.json.get<std::string>() : value.json.dump();
}

/// JSON would say null, as of a value that is missing.
void refuse_not_finite(const RecordJson& json) {
  if (json.is_structured())
    for (const RecordJson& part : json) refuse_not_finite(part);
  if (json.is_number_float() && !std::isfinite(json.get<double>()))
    throw Error(ErrorCode::kCorrupt,
                std::isnan(json.get<double>()) ? "NaN, which no JSON has" : "an infinite number");
}

/// Numbers of any nesting, in order.
void add_label_numbers(const RecordJson& json, RecordJson& into) {
  if (json.is_array()) {
    for (const RecordJson& part : json) add_label_numbers(part, into);
  } else if (json.is_boolean()) {
    into.push_back(json.get<bool>() ? 1 : 0);
  } else if (json.is_number()) {
    into.push_back(json);
  } else {
    throw Error(ErrorCode::kCorrupt, "not a number");
  }
}

std::string printed(const RecordJson& json) {
  try {
    return json.dump();
  } catch (const RecordJson::exception&) {
    throw Error(ErrorCode::kCorrupt, "text that is not UTF-8");
  }
}

/// "{study}/{image}" over columns.
class KeyPattern {
 public:
  KeyPattern() = default;
  KeyPattern(const std::string& text,
             const std::function<std::size_t(const std::string&)>& column) {
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t open = std::min(text.find('{', at), text.size());
      if (open > at) parts_.push_back({.text = text.substr(at, open - at), .column = {}});
      if (open == text.size()) return;
      const std::size_t close = text.find('}', open);
      require(close != text.npos, "--key " + text + ": unterminated brace");
      parts_.push_back({.text = {}, .column = column(text.substr(open + 1, close - open - 1))});
      at = close + 1;
    }
  }

  bool wanted() const { return !parts_.empty(); }
  Columns columns() const {
    Columns columns;
    for (const Part& part : parts_)
      if (part.column) columns.push_back(*part.column);
    return columns;
  }
  /// `value` gives a column's.
  std::string fill(const std::function<const RecordValue&(std::size_t)>& value) const {
    std::string text;
    for (const Part& part : parts_)
      text += part.column ? record_text(value(*part.column)) : part.text;
    return text;
  }

 private:
  struct Part {
    std::string text;
    std::optional<std::size_t> column;
  };
  std::vector<Part> parts_;
};

class RecordSource final : public SampleSource {
 public:
  RecordSource(std::unique_ptr<Records> records, const SourceRequest& request)
      : records_(std::move(records)), request_(request) {
    refuse_repeated_files(records_->files());
    if (size() == 0) return;
    choose_columns();
    request_.recoding.upright = images_.size() < 2 && !has_boxes();
    find_texts();
    name_fields();
    number_classes();
    if (key_.wanted())
      check_keys(
          size(), [this](std::uint64_t i) { return key(i, read(i, key_columns_)); },
          [this](std::uint64_t i) { return records_->place(i); });
    if (request.columns.takes_all()) tell(request.log);
  }

  std::uint64_t size() const override { return records_->size(); }

  void identify(Sha256& into) const override {
    for (const std::string& file : records_->files()) identify_file(file, into);
  }

  std::vector<std::string> classes() const override {
    if (!class_)
      return request_.columns.labels.size() > 1 ? request_.columns.labels
                                                : std::vector<std::string>();
    const auto names = records_->class_names(*class_);
    return names.empty() ? classes_.names() : names;
  }

  std::string group(std::uint64_t index) const override {
    if (!group_) return {};
    return at_record(index,
                     [&] { return record_text(read(index, group_columns_).values.front()); });
  }

  wds::Sample make(std::uint64_t index) const override {
    return at_record(index, [&] {
      const Row row = read(index, wanted_);
      wds::Sample sample;
      sample.key = key(index, row);
      if (class_)
        sample.fields.push_back(
            make_field("cls", io::Bytes::copy_of(std::to_string(class_number(row.of(*class_))))));
      if (const RecordJson json = json_of(row); !json.empty()) {
        sample.fields.push_back(make_field("json", io::Bytes::copy_of(printed(json))));
        if (request_.recoding.size.wanted()) refuse_boxes_without_size(sample.fields.back().data);
      }
      for (const std::size_t column : images_) add_files(column, row.of(column), sample);
      for (const std::size_t column : columns_)
        if (!is_json(column, row.of(column))) add_files(column, row.of(column), sample);
      if (sample.fields.empty()) throw Error(ErrorCode::kCorrupt, "no value in any column wanted");
      return sample;
    });
  }

 private:
  /// A record's values of some columns.
  struct Row {
    const Columns& columns;
    Values values;

    const RecordValue& of(std::size_t column) const {
      const auto found = std::find(columns.begin(), columns.end(), column);
      return values[static_cast<std::size_t>(found - columns.begin())];
    }
  };

  Row read(std::uint64_t index, const Columns& columns) const {
    return {.columns = columns, .values = records_->read(index, columns)};
  }
  Row read(std::uint64_t index, const Columns&& columns) const = delete;

  /// Runs `work` and adds the record to what it throws.
  template <typename Work>
  std::invoke_result_t<Work> at_record(std::uint64_t index, const Work& work) const {
    try {
      return work();
    } catch (const Error& error) {
      throw Error(error.code(), records_->place(index) + ": " + error.message(), error.where());
    }
  }

  /// Runs `work` and adds the column to what it throws.
  template <typename Work>
  std::invoke_result_t<Work> at_column(std::size_t column, const Work& work) const {
    return wds::in_column(records_->columns()[column], work);
  }

  std::size_t column(const std::string& name) const {
    const auto& names = records_->columns();
    const auto found = std::find(names.begin(), names.end(), name);
    if (found == names.end())
      throw Error(
          ErrorCode::kInvalidArgument,
          fmt::format("{}: no column '{}': there are {}", records_->files().front(),
                      printable(name), printable(fmt::format("{}", fmt::join(names, ", ")), 1000)));
    return static_cast<std::size_t>(found - names.begin());
  }

  Columns columns_of(const std::vector<std::string>& names) const {
    Columns columns;
    for (const std::string& name : names) columns.push_back(column(name));
    return columns;
  }

  void choose_columns() {
    const ColumnOptions& options = request_.columns;
    images_ = columns_of(options.images);
    labels_ = columns_of(options.labels);
    columns_ = columns_of(options.columns);
    if (options.takes_all())
      for (std::size_t i = 0; i < records_->columns().size(); ++i) columns_.push_back(i);
    if (!options.class_column.empty()) class_ = column(options.class_column);
    if (!options.group_by.empty()) group_ = column(options.group_by);
    key_ = KeyPattern(options.key, [this](const std::string& name) { return column(name); });
    key_columns_ = key_.columns();
    std::set<std::size_t> all(key_columns_.begin(), key_columns_.end());
    for (const Columns& some : {images_, labels_, columns_}) all.insert(some.begin(), some.end());
    if (class_) all.insert(*class_);
    if (group_) all.insert(*group_);
    wanted_.assign(all.begin(), all.end());
    if (group_) group_columns_ = {*group_};
    if (class_) class_columns_ = {*class_};
  }

  bool has_boxes() const {
    return std::ranges::any_of(columns_, [this](std::size_t column) {
      return records_->columns()[column] == decode::BoxKeys().boxes;
    });
  }

  /// Bytes may be a text, unless the format tells them apart: what they are in the first record,
  /// they are in all.
  void find_texts() {
    texts_.resize(records_->columns().size());
    const Row first = at_record(0, [this] { return read(0, wanted_); });
    for (const std::size_t column : columns_) {
      const RecordValue& value = first.of(column);
      const bool bytes = !records_->is_binary(column) && value.files.size() == 1 &&
                         !value.is_list && !value.files.front().pixels &&
                         value.files.front().suffix.empty();
      texts_[column] =
          bytes && is_text(value.files.front().data) &&
          decode::standard_codecs()->of_content(value.files.front().data.span()) == nullptr;
    }
  }

  /// The first picture is the sample's own, also where nothing says which is one. Of columns that
  /// are files, in the first record, no two may give one field.
  void name_fields() {
    names_.resize(records_->columns().size());
    std::optional<std::size_t> own;
    if (!images_.empty()) own = images_.front();
    if (request_.columns.takes_all()) own = only_picture();
    std::set<std::string> taken;
    const Row first = at_record(0, [this] { return read(0, wanted_); });
    for (const Columns* some : {&images_, &columns_}) {
      for (const std::size_t column : *some) {
        if (column != own) names_[column] = wds::suffix_part(records_->columns()[column]);
        if (some == &columns_ && is_json(column, first.of(column))) continue;
        require(taken.insert(names_[column]).second,
                "two columns would give the field " +
                    (names_[column].empty() ? "of the picture" : names_[column]));
      }
    }
  }

  std::optional<std::size_t> only_picture() const {
    std::optional<std::size_t> only;
    const Row first = at_record(0, [this] { return read(0, wanted_); });
    for (const std::size_t column : columns_) {
      const RecordValue& value = first.of(column);
      if (value.is_list || value.files.size() != 1 || !is_picture(value.files.front())) continue;
      if (only) return std::nullopt;
      only = column;
    }
    return only;
  }

  static bool is_picture(const RecordFile& file) {
    return file.pixels || decode::standard_codecs()->of_content(file.data.span()) != nullptr;
  }

  /// Names need a pass over all records; numbers, and names that the format lists, do not.
  void number_classes() {
    if (!class_ || !records_->class_names(*class_).empty()) return;
    const Row first = at_record(0, [this] { return read(0, class_columns_); });
    if (first.values.front().files.empty() && !first.values.front().json.is_string()) return;
    named_ = true;
    for (std::uint64_t i = 0; i < size(); ++i)
      at_record(i, [&] {
        at_column(*class_,
                  [&] { classes_.add(record_text(read(i, class_columns_).values.front())); });
      });
    at_column(*class_, [&] { classes_.settle(); });
    classes_.warn_if_mixed(request_.log);
  }

  std::uint64_t class_number(const RecordValue& value) const {
    return at_column(*class_, [&]() -> std::uint64_t {
      if (named_) return classes_.number(record_text(value));
      const RecordJson& json = value.json;
      if (json.is_boolean()) return json.get<bool>() ? 1 : 0;
      // pandas makes floats of a column of integers in which one was missing.
      if (json.is_number_float() && json.get<double>() >= 0 && json.get<double>() < kMostLabel &&
          std::trunc(json.get<double>()) == json.get<double>())
        return static_cast<std::uint64_t>(json.get<double>());
      if (!value.files.empty() || !json.is_number_integer())
        throw Error(ErrorCode::kCorrupt, value.is_null() ? "no class" : "not a whole number");
      if (!json.is_number_unsigned() && json.get<std::int64_t>() < 0)
        throw Error(ErrorCode::kCorrupt, "class " + json.dump() + " is negative");
      if (json.get<std::uint64_t>() > std::numeric_limits<std::int64_t>::max())
        throw Error(ErrorCode::kCorrupt, "class " + json.dump() + " is above 2^63 - 1");
      return json.get<std::uint64_t>();
    });
  }

  bool is_json(std::size_t column, const RecordValue& value) const {
    return texts_[column] || value.files.empty();
  }

  RecordJson json_of(const Row& row) const {
    RecordJson json = RecordJson::object();
    if (!labels_.empty()) {
      json["labels"] = RecordJson::array();
      for (const std::size_t column : labels_)
        at_column(column, [&] {
          refuse_not_finite(numbers(row.of(column)));
          add_label_numbers(numbers(row.of(column)), json["labels"]);
        });
    }
    if (group_) json["group"] = at_column(*group_, [&] { return record_text(row.of(*group_)); });
    for (const std::size_t column : columns_) {
      const RecordValue& value = row.of(column);
      if (!is_json(column, value)) continue;
      at_column(column, [&] { refuse_not_finite(value.json); });
      json[records_->columns()[column]] =
          value.files.empty() ? value.json
                              : at_column(column, [&] { return RecordJson(record_text(value)); });
    }
    return json;
  }

  static const RecordJson& numbers(const RecordValue& value) {
    if (!value.files.empty()) throw Error(ErrorCode::kCorrupt, "not a number");
    return value.json;
  }

  void add_files(std::size_t column, const RecordValue& value, wds::Sample& sample) const {
    at_column(column, [&] {
      const bool own = names_[column].empty();
      if (value.files.empty() && !value.json.is_null())
        throw Error(ErrorCode::kCorrupt, "no picture but " + printable(printed(value.json)));
      if (value.files.empty() && own) throw Error(ErrorCode::kCorrupt, "no picture");
      const bool picture = std::ranges::find(images_, column) != images_.end();
      for (const RecordFile& file : value.files) {
        if (picture && !file.pixels && file.data.size() == 0)
          throw Error(ErrorCode::kCorrupt, "no picture: its bytes are empty");
        wds::Field field = file_field(own, file);
        if (value.is_list) field.suffix = std::to_string(file.place) + "." + field.suffix;
        if (!own) field.suffix = names_[column] + "." + field.suffix;
        sample.fields.push_back(std::move(field));
      }
    });
  }

  /// The sample's own picture is re-encoded as asked; others, masks among them, stay as they are.
  wds::Field file_field(bool own, const RecordFile& file) const {
    if (file.pixels && own)
      return encode_field(resized(storable(*file.pixels), request_.recoding.size),
                          request_.encoding);
    if (file.pixels) return encode_field(*file.pixels, {});
    const decode::Codec* codec = decode::standard_codecs()->of_content(file.data.span());
    std::string suffix = codec != nullptr ? codec->suffixes.front() : file.suffix;
    if (own && !request_.recoding.keeps())
      return recoded_field(file.data, suffix, request_.recoding);
    if (suffix.empty()) suffix = "bin";
    return make_field(suffix, file.data);
  }

  /// Without alpha, unless the format has it.
  decode::Image storable(const decode::Image& image) const {
    const decode::Codec* codec = decode::standard_codecs()->of_suffix(request_.encoding.format);
    if (image.channels != 4 || (codec != nullptr && codec->encodes_alpha)) return image;
    decode::Image opaque{.height = image.height, .width = image.width, .channels = 3, .pixels = {}};
    std::vector<std::byte> pixels;
    pixels.reserve(image.pixels.size() / 4 * 3);
    for (std::size_t i = 0; i < image.pixels.size(); i += 4)
      pixels.insert(pixels.end(), image.pixels.data() + i, image.pixels.data() + i + 3);
    opaque.pixels = io::Bytes::take(std::move(pixels));
    return opaque;
  }

  std::string key(std::uint64_t index, const Row& row) const {
    if (!key_.wanted()) return fmt::format("{:08}", index);
    std::string key = key_of_text(
        key_.fill([&](std::size_t column) -> const RecordValue& { return row.of(column); }));
    if (key.empty()) throw Error(ErrorCode::kCorrupt, "an empty key");
    return key;
  }

  void tell(const Log& log) const {
    std::string json;
    std::string files;
    const Row first = at_record(0, [this] { return read(0, wanted_); });
    for (const std::size_t column : columns_) {
      std::string& list = is_json(column, first.of(column)) ? json : files;
      list += (list.empty() ? "" : ", ") + records_->columns()[column];
    }
    log.info(
        fmt::format("all columns are taken: {} as files, {} into the json; --images, --label and "
                    "--columns choose",
                    files.empty() ? "none" : printable(files, 400),
                    json.empty() ? "none" : printable(json, 400)));
  }

  std::unique_ptr<Records> records_;
  SourceRequest request_;
  Columns images_;
  Columns labels_;
  Columns columns_;
  std::optional<std::size_t> class_;
  std::optional<std::size_t> group_;
  KeyPattern key_;
  Columns key_columns_;
  Columns class_columns_;
  Columns group_columns_;
  Columns wanted_;                  ///< all of these
  std::vector<bool> texts_;         ///< each column's: bytes are a text
  std::vector<std::string> names_;  ///< each column's; empty: the sample's own picture
  ClassLabels classes_;
  bool named_ = false;  ///< whether classes_ numbers them
};

}  // namespace

std::unique_ptr<SampleSource> open_record_source(std::unique_ptr<Records> records,
                                                 const SourceRequest& request) {
  return std::make_unique<RecordSource>(std::move(records), request);
}

}  // namespace millrace::tools
