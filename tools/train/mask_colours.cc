#include "tools/train/mask_colours.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <optional>
#include <string_view>

#include "io/base/error.h"
#include "io/opener.h"
#include "tools/text_edit.h"

namespace millrace::tools {
namespace {

constexpr std::size_t kMaxFileBytes = std::size_t{64} * 1024;
constexpr std::string_view kSpace = " \t\r";

// CamVid's colours as its usual 11 classes, the class's own colour first. Source: the data set's
// label_colors.txt; the grouping of Badrinarayanan, Kendall, Cipolla, "SegNet" (2015).
constexpr std::string_view kCamVid = R"(
128 128 128 Sky
128 0 0 Building
192 0 128 Building
0 128 64 Building
64 0 64 Building
64 192 0 Building
192 192 128 Pole
0 0 64 Pole
128 64 128 Road
128 0 192 Road
192 0 64 Road
0 0 192 Pavement
64 192 128 Pavement
128 128 192 Pavement
128 128 0 Tree
192 192 0 Tree
192 128 128 SignSymbol
128 128 64 SignSymbol
0 64 64 SignSymbol
64 64 128 Fence
64 0 128 Car
64 128 192 Car
192 128 192 Car
192 64 128 Car
128 64 64 Car
64 64 0 Pedestrian
64 128 64 Pedestrian
64 0 192 Pedestrian
192 128 64 Pedestrian
0 128 192 Bicyclist
192 0 192 Bicyclist
0 0 0 Void
)";

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& c : result) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return result;
}

bool is_left_out(std::string_view name) {
  constexpr std::array<std::string_view, 4> kLeftOut = {"void", "ignore", "unlabelled",
                                                        "unlabeled"};
  return std::ranges::find(kLeftOut, lower(name)) != kLeftOut.end();
}

std::optional<std::uint8_t> level_of(std::string_view text) {
  int value = -1;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool whole = status == std::errc() && end == text.data() + text.size();
  if (!whole || value < 0 || value > 255) return {};
  return static_cast<std::uint8_t>(value);
}

/// Splits at commas, or into three numbers separated by spaces and the rest.
std::vector<std::string_view> split(std::string_view line) {
  std::vector<std::string_view> parts;
  const bool commas = line.find(',') != std::string_view::npos;
  const std::string_view separators = commas ? "," : kSpace;
  while (!line.empty()) {
    const bool rest = !commas && parts.size() == 3;
    const std::size_t end =
        rest ? line.size() : std::min(line.find_first_of(separators), line.size());
    parts.push_back(trimmed(line.substr(0, end)));
    line.remove_prefix(std::min(end + 1, line.size()));
    if (!commas) line = trimmed(line);
  }
  return parts;
}

/// The positions of the three levels and the name in a line.
struct HeaderColumns {
  std::array<std::size_t, 3> rgb = {0, 1, 2};
  std::size_t name = 3;
};

/// From a header line; nullopt if the line is not one.
std::optional<HeaderColumns> header_of(const std::vector<std::string_view>& parts) {
  constexpr std::array<std::string_view, 4> kWords = {"r", "g", "b", "name"};
  std::array<std::size_t, 4> at = {};
  for (std::size_t i = 0; i < kWords.size(); ++i) {
    const auto found = std::ranges::find_if(
        parts, [&](std::string_view part) { return lower(part) == kWords[i]; });
    if (found == parts.end()) return {};
    at[i] = static_cast<std::size_t>(found - parts.begin());
  }
  return HeaderColumns{.rgb = {at[0], at[1], at[2]}, .name = at[3]};
}

class ColourTable {
 public:
  explicit ColourTable(std::int64_t ignore) : ignore_(ignore) {}

  /// Returns false if the line is not a colour.
  bool add(std::string_view line) {
    const auto parts = split(line);
    if (read_.colours.empty() && !header_) {
      header_ = header_of(parts);
      if (header_) return true;
    }
    const HeaderColumns columns = header_.value_or(
        level_of(parts.front()) ? HeaderColumns{} : HeaderColumns{.rgb = {1, 2, 3}, .name = 0});
    decode::ClassColour colour;
    for (std::size_t c = 0; c < 3; ++c) {
      const auto level = columns.rgb[c] < parts.size() ? level_of(parts[columns.rgb[c]])
                                                       : std::optional<std::uint8_t>();
      if (!level) return false;
      colour.rgb[c] = *level;
    }
    if (columns.name >= parts.size() || parts[columns.name].empty()) return false;
    colour.label = label_of(parts[columns.name]);
    read_.colours.push_back(colour);
    return true;
  }

  MaskColours take() { return std::move(read_); }
  bool has_classes() const { return !read_.names.empty(); }

 private:
  std::int64_t label_of(std::string_view name) {
    if (is_left_out(name)) return ignore_;
    const auto found = std::ranges::find(read_.names, name);
    const std::int64_t label = found - read_.names.begin();
    if (found == read_.names.end()) read_.names.emplace_back(name);
    return label;
  }

  std::int64_t ignore_;
  std::optional<HeaderColumns> header_;
  MaskColours read_;
};

}  // namespace

MaskColours read_mask_colours(const std::string& path, std::int64_t ignore) {
  const bool built_in = path == "camvid";
  const io::Bytes bytes =
      built_in ? io::Bytes() : io::read_object(io::UrlOpener(), path, kMaxFileBytes);
  ColourTable table(ignore);
  std::string_view rest = built_in ? kCamVid : bytes.text();
  for (int number = 1; !rest.empty(); ++number) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    const std::string_view line = trimmed(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (line.empty() || line.front() == '#') continue;
    if (!table.add(line))
      throw Error(ErrorCode::kInvalidArgument,
                  "--task.colors " + path + ", line " + std::to_string(number) +
                      ": not R G B NAME or NAME,R,G,B with levels of 0 to 255");
  }
  require(table.has_classes(), "--task.colors " + path + " lists no class");
  return table.take();
}

}  // namespace millrace::tools
