#include "tools/create/list_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <string_view>
#include <utility>

#include "io/base/error.h"
#include "io/base/text.h"
#include "io/local_file.h"
#include "tools/create/class_labels.h"
#include "tools/create/file_identities.h"
#include "tools/create/keys.h"
#include "tools/text_edit.h"

namespace millrace::tools {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMaxListBytes = std::size_t{4} << 30;

struct ListEntry {
  std::uint64_t line = 0;
  std::string path;        ///< as the list has it
  std::string label;       ///< empty: none
  std::string_view whole;  ///< the line, in the list's bytes
};

ListEntry parse_line(std::string_view text, std::uint64_t line) {
  text.remove_prefix(text.find_first_not_of(' '));
  std::size_t cut = text.find('\t');
  if (cut == std::string_view::npos) cut = trimmed(text).find_last_of(' ');
  if (cut == std::string_view::npos) cut = text.size();
  return {.line = line,
          .path = std::string(trimmed(text.substr(0, cut))),
          .label = std::string(trimmed(text.substr(cut))),
          .whole = text};
}

std::vector<ListEntry> parse_list(std::string_view text) {
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  std::vector<ListEntry> entries;
  for (std::uint64_t line = 1; !text.empty(); ++line) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    if (!trimmed(text.substr(0, end)).empty())
      entries.push_back(parse_line(text.substr(0, end), line));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return entries;
}

class ListSource final : public SampleSource {
 public:
  explicit ListSource(ListSourceOptions options) : options_(std::move(options)) {
    list_ = io::read_local_file(options_.list, kMaxListBytes);
    entries_ = parse_list(list_.text());
    if (entries_.empty()) throw Error(ErrorCode::kCorrupt, "an empty list", {.url = options_.list});
    if (options_.root.empty()) options_.root = fs::path(options_.list).parent_path().string();
    FolderFence fence(options_.root, options_.outside);
    for (const ListEntry& entry : entries_) look_at(entry, fence);
    try {
      classes_.settle();
    } catch (Error& error) {
      error.annotate({.url = options_.list});
      throw;
    }
    classes_.warn_if_mixed(options_.log);
    check_keys(
        size(), [&](std::uint64_t i) { return key_of_path(entries_[i].path); },
        [&](std::uint64_t i) { return place(entries_[i]); });
  }

  std::uint64_t size() const override { return entries_.size(); }
  std::vector<std::string> classes() const override { return classes_.names(); }

  void identify(Sha256& into) const override {
    into.update(list_.span());
    identify_files(
        size(), [this](std::uint64_t i) { return file(entries_[i]); }, into);
  }

  wds::Sample make(std::uint64_t index) const override {
    const ListEntry& entry = entries_[index];
    wds::Sample sample;
    sample.key = key_of_path(entry.path);
    if (!entry.label.empty())
      sample.fields.push_back(
          make_field("cls", io::Bytes::copy_of(std::to_string(classes_.number(entry.label)))));
    sample.fields.push_back(image_field(file(entry), options_.recoding));
    return sample;
  }

 private:
  std::string place(const ListEntry& entry) const {
    return fmt::format("{} line {}", options_.list, entry.line);
  }
  std::string file(const ListEntry& entry) const {
    return (fs::path(options_.root) / entry.path).string();
  }

  /// Where the label may be the end of a path with a space.
  std::string hint_of_tab(const ListEntry& entry) const {
    const std::string_view whole = trimmed(entry.whole);
    std::error_code ignored;
    const bool is_path =
        whole != entry.path && fs::is_regular_file(fs::path(options_.root) / whole, ignored);
    if (!is_path) return {};
    return fmt::format(
        "; '{}' is one: a line whose path has spaces ends it with a TAB, also "
        "where no label follows",
        printable(std::string(whole)));
  }

  void look_at(const ListEntry& entry, FolderFence& fence) {
    const auto fault = [&](ErrorCode code, const std::string& message) {
      throw Error(code, place(entry) + ": " + message);
    };
    std::error_code ignored;
    if (!fs::is_regular_file(file(entry), ignored))
      fault(ErrorCode::kNotFound, "no file is " + file(entry) + hint_of_tab(entry));
    try {
      fence.check(file(entry));
    } catch (const Error& error) {
      fault(error.code(), error.message());
    }
    if (key_of_path(entry.path).empty()) fault(ErrorCode::kCorrupt, "an empty key");
    if (entry.label.empty() != entries_.front().label.empty())
      fault(ErrorCode::kCorrupt, "some lines have a label, and some have none");
    if (entry.label.empty()) return;
    try {
      classes_.add(entry.label);
    } catch (const Error& error) {
      fault(error.code(), error.message());
    }
  }

  ListSourceOptions options_;
  io::Bytes list_;
  std::vector<ListEntry> entries_;
  ClassLabels classes_;
};

}  // namespace

std::unique_ptr<SampleSource> open_list_source(const ListSourceOptions& options) {
  return std::make_unique<ListSource>(options);
}

}  // namespace millrace::tools
