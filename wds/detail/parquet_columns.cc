#include "wds/detail/parquet_columns.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "io/base/error.h"
#include "io/base/json.h"
#include "io/base/text.h"
#include "wds/in_column.h"
#include "wds/member_name.h"

namespace millrace::wds::detail {
namespace {

constexpr std::array<std::string_view, 6> kPictureNames = {"image", "img",  "picture",
                                                           "photo", "jpeg", "jpg"};
constexpr std::array<std::string_view, 4> kLabelNames = {"label", "labels", "cls", "class"};

/// By the first bytes; empty if they tell nothing.
std::string_view suffix_of_content(std::string_view data) {
  using namespace std::string_view_literals;
  if (data.starts_with("\xFF\xD8\xFF"sv)) return "jpg";
  if (data.starts_with("\x89PNG\r\n\x1a\n"sv)) return "png";
  if (data.starts_with("RIFF"sv) && data.substr(0, 12).ends_with("WEBP"sv)) return "webp";
  if (data.starts_with("II*\0"sv) || data.starts_with("MM\0*"sv)) return "tif";
  return {};
}

std::string suffix_of(const RowFile& file) {
  if (const auto known = suffix_of_content(file.data.text()); !known.empty())
    return std::string(known);
  return file.suffix.empty() ? "bin" : file.suffix;
}

bool holds_files(const RowColumn& column) {
  return column.kind == ColumnKind::kFile || column.kind == ColumnKind::kBytes;
}

std::size_t place_of(const std::vector<RowColumn>& columns, std::string_view name) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < columns.size(); ++i) {
    if (columns[i].name == name) return i;
    names.push_back(columns[i].name);
  }
  throw Error(ErrorCode::kInvalidArgument,
              fmt::format("no column '{}': there are {}", printable(name),
                          printable(fmt::format("{}", fmt::join(names, ", ")), 400)));
}

/// The first column of one of `names` that is as wanted, or else the only one that is `typical`.
template <typename Names, typename Fits, typename Typical>
std::optional<std::size_t> usual_column(const std::vector<RowColumn>& columns, const Names& names,
                                        const Fits& fits, const Typical& typical) {
  for (const std::string_view name : names)
    for (std::size_t i = 0; i < columns.size(); ++i)
      if (columns[i].name == name && fits(columns[i])) return i;
  const auto found = std::ranges::find_if(columns, typical);
  if (found == columns.end() || std::ranges::count_if(columns, typical) > 1) return {};
  return static_cast<std::size_t>(found - columns.begin());
}

std::optional<std::size_t> usual_picture(const std::vector<RowColumn>& columns) {
  const auto is_file = [](const RowColumn& one) { return one.kind == ColumnKind::kFile; };
  const bool any = std::ranges::any_of(columns, is_file);
  return usual_column(columns, kPictureNames, holds_files,
                      [&](const RowColumn& one) { return any ? is_file(one) : holds_files(one); });
}

std::optional<std::size_t> usual_label(const std::vector<RowColumn>& columns) {
  const auto fits = [](const RowColumn& one) { return one.kind == ColumnKind::kInteger; };
  return usual_column(columns, kLabelNames, fits,
                      [&](const RowColumn& one) { return fits(one) && !one.classes.empty(); });
}

[[noreturn]] void wrong_value(const char* message) { throw Error(ErrorCode::kCorrupt, message); }

/// A whole number as people write it.
std::string label_text(const RowValue& value) {
  if (value.is_null()) wrong_value("no label");
  if (value.json == "true" || value.json == "false") return value.json == "true" ? "1" : "0";
  const std::string_view digits = std::string_view(value.json).substr(value.json.starts_with('-'));
  if (!value.files.empty() || digits.empty() ||
      digits.find_first_not_of("0123456789") != digits.npos)
    wrong_value("a label that is not a whole number");
  return value.json;
}

/// A text as it is, without JSON's quotes.
std::string plain_text(const RowValue& value) {
  if (value.files.size() == 1 && !value.is_list) {
    if (!is_utf8(value.files.front().data.text())) wrong_value("text that is not UTF-8");
    return std::string(value.files.front().data.text());
  }
  if (value.is_null() || !value.files.empty()) wrong_value("no text");
  if (!value.json.starts_with('"')) return value.json;
  return parse_json<nlohmann::json>(value.json, "a text").get<std::string>();
}

std::string quoted(const std::string& name) {
  return nlohmann::json(name).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace

ParquetColumns::ParquetColumns(const std::vector<RowColumn>& columns, std::string_view choice,
                               const std::vector<std::string>& suffixes)
    : suffixes_(suffixes) {
  std::set<std::string> taken;
  for (const auto& [role, column] : parsed(columns, choice)) {
    const std::string& name = columns[column].name;
    const bool named = role == Role::kFile || role == Role::kJson;
    const std::string field = named ? suffix_part(name) : "";
    if (role != Role::kJson && role != Role::kKey &&
        !taken.insert(std::to_string(static_cast<int>(role)) + field).second)
      throw Error(ErrorCode::kUnsupported,
                  "two columns would give the field of " + printable(name));
    if (!may_give(role, field)) continue;
    const auto known = std::ranges::find(wanted_, column);
    uses_.push_back({static_cast<std::size_t>(known - wanted_.begin()), role, name, field});
    if (known == wanted_.end()) wanted_.push_back(column);
  }
}

ParquetColumns::Choice ParquetColumns::parsed(const std::vector<RowColumn>& columns,
                                              std::string_view choice) {
  if (choice.starts_with('#')) choice.remove_prefix(1);
  Choice keys;
  Choice chosen;
  while (!choice.empty()) {
    const std::string_view part = choice.substr(0, choice.find('&'));
    choice.remove_prefix(std::min(choice.size(), part.size() + 1));
    const std::string_view what = part.substr(0, part.find('='));
    std::string_view names = part.substr(std::min(part.size(), what.size() + 1));
    if (names.empty())
      throw Error(
          ErrorCode::kInvalidArgument,
          "'" + printable(part) + "' chooses no column: image=A&label=B&text=C&columns=D,E&key=F");
    for (bool first = true; !names.empty(); first = false) {
      const std::string_view name = names.substr(0, names.find(','));
      names.remove_prefix(std::min(names.size(), name.size() + 1));
      const std::size_t column = place_of(columns, name);
      if (what == "image")
        chosen.emplace_back(first ? Role::kOwn : Role::kFile, column);
      else if (what == "label")
        chosen.emplace_back(Role::kLabel, column);
      else if (what == "text")
        chosen.emplace_back(Role::kText, column);
      else if (what == "columns")
        chosen.emplace_back(holds_files(columns[column]) ? Role::kFile : Role::kJson, column);
      else if (what == "key")
        keys.emplace_back(Role::kKey, column);
      else
        throw Error(ErrorCode::kInvalidArgument,
                    "'" + printable(what) + "' is none of image, label, text, columns, key");
    }
  }
  if (chosen.empty()) chosen = usual(columns);
  chosen.insert(chosen.end(), keys.begin(), keys.end());
  return chosen;
}

ParquetColumns::Choice ParquetColumns::usual(const std::vector<RowColumn>& columns) {
  const auto picture = usual_picture(columns);
  const auto label = usual_label(columns);
  Choice chosen;
  for (std::size_t i = 0; i < columns.size(); ++i) {
    if (i == picture)
      chosen.emplace_back(Role::kOwn, i);
    else if (i == label)
      chosen.emplace_back(Role::kLabel, i);
    else
      chosen.emplace_back(holds_files(columns[i]) ? Role::kFile : Role::kJson, i);
  }
  return chosen;
}

bool ParquetColumns::is_wanted(std::string_view suffix) const {
  return suffixes_.empty() || std::ranges::find(suffixes_, suffix) != suffixes_.end();
}

/// Whether a field that is wanted may come from such a column. A picture's suffix is known when it
/// is read.
bool ParquetColumns::may_give(Role role, const std::string& field) const {
  const auto may_be_own = [](const std::string& suffix) {
    const bool of_list = suffix.find_first_of("0123456789") == 0;
    return suffix != "cls" && suffix != "txt" && suffix != "json" &&
           (of_list || suffix.find('.') == suffix.npos);
  };
  const auto is_of_column = [&](const std::string& suffix) {
    return suffix.starts_with(field + ".");
  };
  switch (role) {
    case Role::kKey:
      return true;
    case Role::kLabel:
      return is_wanted("cls");
    case Role::kText:
      return is_wanted("txt");
    case Role::kJson:
      return is_wanted("json") || std::ranges::any_of(suffixes_, is_of_column);
    case Role::kFile:
      return suffixes_.empty() || std::ranges::any_of(suffixes_, is_of_column);
    case Role::kOwn:
      break;
  }
  return suffixes_.empty() || std::ranges::any_of(suffixes_, may_be_own);
}

std::optional<std::string> ParquetColumns::key_of(const RowBatch& batch, std::size_t row) const {
  std::string key;
  for (const Use& use : uses_) {
    if (use.role != Role::kKey) continue;
    if (!key.empty()) key += '/';
    key += in_column(use.name, [&] { return plain_text(batch.value(use.column, row)); });
  }
  if (key.empty()) return {};
  return key;
}

std::vector<Field> ParquetColumns::fields_of(const RowBatch& batch, std::size_t row,
                                             std::uint64_t max_bytes) const {
  std::vector<Field> fields;
  std::string json;
  for (const Use& use : uses_) {
    if (use.role == Role::kKey) continue;
    in_column(use.name, [&] {
      RowValue value = batch.value(use.column, row);
      if (use.role == Role::kLabel)
        return add("cls", io::Bytes::copy_of(label_text(value)), fields);
      if (use.role == Role::kText) return add("txt", io::Bytes::copy_of(plain_text(value)), fields);
      const bool rest = use.role == Role::kJson;
      if (!value.files.empty() || !rest) return add_files(use, value, max_bytes, fields);
      json += (json.empty() ? "{" : ",") + quoted(use.name) + ":" + value.json;
    });
  }
  if (!json.empty() && is_wanted("json")) add("json", io::Bytes::copy_of(json + "}"), fields);
  return fields;
}

void ParquetColumns::add_files(const Use& use, RowValue& value, std::uint64_t max_bytes,
                               std::vector<Field>& fields) const {
  const bool own = use.role == Role::kOwn;
  if (value.files.empty() && value.json != "null")
    wrong_value("no picture but another type of value");
  if (value.files.empty() && own) wrong_value("no picture");
  for (const RowFile& file : value.files) {
    if (own && file.data.size() == 0) wrong_value("no picture: its bytes are empty");
    if (file.data.size() > max_bytes)
      throw Error(ErrorCode::kExhausted, fmt::format("a value of {} bytes; at most {} are read",
                                                     file.data.size(), max_bytes));
    std::string suffix = suffix_of(file);
    if (value.is_list) suffix = std::to_string(file.place) + "." + suffix;
    if (!own) suffix = use.field + "." + suffix;
    if (is_wanted(suffix)) add(std::move(suffix), io::Bytes::copy_of(file.data.span()), fields);
  }
}

void ParquetColumns::add(std::string suffix, io::Bytes data, std::vector<Field>& fields) const {
  if (std::ranges::any_of(fields, [&](const Field& one) { return one.suffix == suffix; }))
    wrong_value("a field that the sample has already");
  fields.push_back({.suffix = std::move(suffix), .data = std::move(data)});
}

}  // namespace millrace::wds::detail
