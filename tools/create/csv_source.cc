#include "tools/create/csv_source.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <utility>

#include "io/base/error.h"
#include "io/base/json.h"
#include "tools/create/class_labels.h"
#include "tools/create/csv_file.h"
#include "tools/create/file_finder.h"
#include "tools/create/file_identities.h"
#include "tools/create/keys.h"
#include "tools/text_edit.h"
#include "wds/in_column.h"

namespace millrace::tools {
namespace {

using CsvRow = std::vector<std::string>;
using Json = nlohmann::ordered_json;

/// A number in JSON's syntax ("12", "-0.5", "1e3", not "007"); integers stay integers.
std::optional<Json> as_number(const std::string& text) {
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string::npos || text.find_first_of("-0123456789", first) != first) return {};
  try {
    return parse_json<Json>(text, "number");
  } catch (const Error&) {
    return {};
  }
}

/// The shortest writing from which the same double is read.
std::string shortest(double value, std::chars_format format) {
  std::array<char, 400> buffer;
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value, format).ptr;
  return {buffer.data(), end};
}

/// Decides whether a column's cells become numbers. They do if every cell is the usual writing of
/// its number, so that the text could be written again: no "007", "12e5" or "+1", no integer above
/// 64 bits, no more digits than a double keeps, nothing in quotes. "1.50" is usual where all cells
/// have as many decimals. Empty cells say nothing.
class ColumnType {
 public:
  void look_at(const std::string& cell, bool quoted) {
    const std::string_view text = trimmed(cell, " \t");
    if (text.empty() && !quoted) return;
    are_numbers_ = are_numbers_ && !quoted && is_usual(text);
  }
  bool are_numbers() const { return are_numbers_ && (!padded_ || same_decimals_); }

 private:
  bool is_usual(std::string_view text) {
    const auto number = as_number(std::string(text));
    if (!number || number->is_number_integer()) return number && number->dump() == text;
    if (text.find_first_of("eE") != text.npos)
      return shortest(number->get<double>(), std::chars_format::scientific) == text;
    const std::size_t point = text.find('.');
    if (point == text.npos) return false;
    count_decimals(text.size() - point - 1);
    const std::size_t digits = std::max(text.find_last_not_of('0') + 1, point + 2);
    padded_ = padded_ || digits < text.size();
    const std::string usual = shortest(number->get<double>(), std::chars_format::fixed);
    return text.substr(0, digits) == (usual.find('.') == usual.npos ? usual + ".0" : usual);
  }
  void count_decimals(std::size_t decimals) {
    same_decimals_ = same_decimals_ && decimals == decimals_.value_or(decimals);
    decimals_ = decimals;
  }

  bool are_numbers_ = true;
  bool padded_ = false;  ///< a cell ends in zeros that its number does not need
  std::optional<std::size_t> decimals_;
  bool same_decimals_ = true;
};

/// More permissive: a label is a number, true or false, in any common spelling.
Json as_label(const std::string& text) {
  if (text == "True" || text == "true" || text == "TRUE") return 1;
  if (text == "False" || text == "false" || text == "FALSE") return 0;
  if (auto number = as_number(text)) return *number;
  double value = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (status != std::errc() || end != text.data() + text.size() || !std::isfinite(value))
    throw Error(ErrorCode::kCorrupt, "'" + text + "' is not a number");
  return value;
}

std::string row_json_text(const Json& json) {
  try {
    return json.dump();
  } catch (const Json::exception&) {
    throw Error(ErrorCode::kCorrupt, "text that is not UTF-8");
  }
}

std::vector<std::size_t> columns_of(const CsvFile& table, const std::vector<std::string>& names) {
  std::vector<std::size_t> columns;
  columns.reserve(names.size());
  for (const std::string& name : names) columns.push_back(table.column(name));
  return columns;
}

std::optional<std::size_t> column_of(const CsvFile& table, const std::string& name) {
  if (name.empty()) return {};
  return table.column(name);
}

class CsvSource final : public SampleSource {
 public:
  explicit CsvSource(CsvOptions options)
      : options_(std::move(options)),
        table_(options_.table),
        path_(options_.path, table_),
        key_(options_.key, table_),
        class_(column_of(table_, options_.class_column)),
        group_(column_of(table_, options_.group_by)),
        labels_(columns_of(table_, options_.labels)),
        columns_(columns_of(table_, options_.columns)),
        types_(columns_.size()) {
    if (table_.num_rows() == 0)
      throw Error(ErrorCode::kCorrupt, "a table without rows", {.url = options_.table});
    if (options_.root.empty())
      options_.root = std::filesystem::path(options_.table).parent_path().string();
    FileFinder finder(options_.root);
    FolderFence fence(options_.root, options_.outside);
    for (std::uint64_t i = 0; i < table_.num_rows(); ++i)
      at_row(i, [&] { look_at(i, finder, fence); });
    wds::in_column(options_.class_column, [&] { classes_.settle(); });
    classes_.warn_if_mixed(options_.log);
    check_keys(
        size(), [&](std::uint64_t i) { return key(i, table_.row(i)); },
        [&](std::uint64_t i) { return table_.place(i); });
  }

  std::uint64_t size() const override { return table_.num_rows(); }
  /// Without a class's column, the labels' own names.
  std::vector<std::string> classes() const override {
    return options_.class_column.empty() ? options_.labels : classes_.names();
  }

  std::string group(std::uint64_t index) const override {
    return group_ ? table_.row(index)[*group_] : std::string();
  }

  void identify(Sha256& into) const override {
    into.update(table_.bytes().span());
    identify_files(
        size(), [this](std::uint64_t i) { return file(i); }, into);
  }

  wds::Sample make(std::uint64_t index) const override {
    const CsvRow row = table_.row(index);
    wds::Sample sample;
    sample.key = key(index, row);
    if (class_)
      sample.fields.push_back(
          make_field("cls", io::Bytes::copy_of(std::to_string(classes_.number(row[*class_])))));
    if (const Json json = json_of(row); !json.empty())
      sample.fields.push_back(make_field("json", io::Bytes::copy_of(row_json_text(json))));
    sample.fields.push_back(image_field(file(index), options_.recoding));
    return sample;
  }

 private:
  /// Runs `work` and adds the row to what it throws.
  template <typename Work>
  void at_row(std::uint64_t index, const Work& work) const {
    try {
      work();
    } catch (const Error& error) {
      throw Error(error.code(), table_.place(index) + ": " + error.message(), error.where());
    }
  }

  /// Everything that can be wrong with a row is found before anything is written.
  void look_at(std::uint64_t index, FileFinder& finder, FolderFence& fence) {
    std::vector<bool> quoted;
    const CsvRow row = table_.row(index, &quoted);
    files_.push_back(finder.find(path_.fill_wild(row)));
    fence.check(file(index));
    if (class_) classes_.add(row[*class_]);
    if (key(index, row).empty()) throw Error(ErrorCode::kCorrupt, "an empty key");
    if (group_ && row[*group_].empty())
      throw Error(ErrorCode::kCorrupt, "no " + options_.group_by + " to group by");
    static_cast<void>(row_json_text(json_of(row)));
    for (std::size_t i = 0; i < columns_.size(); ++i)
      types_[i].look_at(row[columns_[i]], quoted[columns_[i]]);
  }

  std::string file(std::uint64_t index) const {
    return (std::filesystem::path(options_.root) / files_[index]).string();
  }

  std::string key(std::uint64_t index, const CsvRow& row) const {
    return options_.key.empty() ? key_of_path(files_[index]) : key_of_text(key_.fill(row));
  }

  Json json_of(const CsvRow& row) const {
    Json json = Json::object();
    if (!labels_.empty()) json["labels"] = labels_of(row);
    if (group_) json["group"] = row[*group_];
    for (std::size_t i = 0; i < columns_.size(); ++i) {
      const std::string& cell = row[columns_[i]];
      json[table_.columns()[columns_[i]]] =
          types_[i].are_numbers() ? as_number(cell).value_or(cell) : Json(cell);
    }
    return json;
  }

  Json labels_of(const CsvRow& row) const {
    Json labels = Json::array();
    for (const std::size_t column : labels_) {
      labels.push_back(
          wds::in_column(table_.columns()[column], [&] { return as_label(row[column]); }));
    }
    return labels;
  }

  CsvOptions options_;
  CsvFile table_;
  ColumnPattern path_;
  ColumnPattern key_;
  std::optional<std::size_t> class_;
  std::optional<std::size_t> group_;
  std::vector<std::size_t> labels_;
  std::vector<std::size_t> columns_;
  std::vector<ColumnType> types_;  ///< each of columns_'s
  ClassLabels classes_;
  std::vector<std::string> files_;  ///< each row's, below the root
};

}  // namespace

std::unique_ptr<SampleSource> open_csv_source(const CsvOptions& options) {
  return std::make_unique<CsvSource>(options);
}

}  // namespace millrace::tools
