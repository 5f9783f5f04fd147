#include "tools/report/gallery.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <exception>
#include <vector>

#include "io/base/error.h"
#include "io/local_path.h"
#include "tools/report/html.h"
#include "tools/view/thumbnails.h"

namespace millrace::tools {
namespace {

constexpr std::size_t kMostOfShards = 64;
constexpr double kMostOffset = 9e15;

/// Where a picture is, as evaluation.json says.
struct Wanted {
  std::string name;
  std::string shard;
  std::uint64_t offset = 0;
  std::string member;
};

std::vector<Wanted> wanted_of(const RecordJson& evaluation) {
  std::vector<Wanted> all;
  for (const char* list : {"worst", "mistakes"}) {
    const auto samples = evaluation.find(list);
    if (samples == evaluation.end() || !samples->is_array()) continue;
    for (const RecordJson& sample : *samples) {
      const std::string name = picture_name(sample);
      if (name.empty() || std::ranges::find(all, name, &Wanted::name) != all.end()) continue;
      if (all.size() == kMostOfShards) return all;
      all.push_back({.name = name,
                     .shard = text_in(sample, "shard"),
                     .offset = static_cast<std::uint64_t>(*number_in(sample, "offset")),
                     .member = text_in(sample, "member")});
    }
  }
  return all;
}

/// Why the shard is not opened; empty: it may be.
std::string refusal(const std::string& shard, bool fetch) {
  try {
    if (io::is_network_url(shard))
      return fetch ? "" : "its shard is in a store, from which millrace report --fetch draws";
    if (!io::local_path(shard) || io::is_read_once(shard)) return "its shard is no file";
    return "";
  } catch (const Error& error) {
    return error.message();
  }
}

/// The wanted pictures as a set's, whose shards are numbered.
struct WantedSet {
  SetSurvey survey{{}};
  std::deque<SurveyedPicture> pictures;
  std::vector<std::string> names;

  void add(const Wanted& wanted) {
    auto shard = std::ranges::find(survey.shards, wanted.shard, &SurveyedShard::url);
    if (shard == survey.shards.end())
      shard = survey.shards.insert(shard, SurveyedShard{.url = wanted.shard});
    pictures.push_back({.shard = static_cast<std::uint32_t>(shard - survey.shards.begin()),
                        .offset = wanted.offset,
                        .member = wanted.member});
    names.push_back(wanted.name);
  }
};

std::string_view type_of(std::string_view base64) {
  if (base64.starts_with("iVBORw0KGgo")) return "image/png";
  return base64.starts_with("/9j/") ? "image/jpeg" : "";
}

bool is_base64(std::string_view text) {
  return std::ranges::all_of(text, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '+' ||
           c == '/' || c == '=';
  });
}

}  // namespace

std::string picture_name(const RecordJson& sample) {
  const auto offset = number_in(sample, "offset");
  const std::string shard = text_in(sample, "shard");
  const std::string member = text_in(sample, "member");
  if (shard.empty() || member.empty() || !offset || *offset < 0 || *offset > kMostOffset) return {};
  return fmt::format("{:.0f} {} {}", *offset, member, shard);
}

void draw_pictures(RunRecord& run, const GalleryInput& input) {
  if (!run.evaluation.is_object()) return;
  WantedSet set;
  for (const Wanted& wanted : wanted_of(run.evaluation)) {
    const std::string why = refusal(wanted.shard, input.fetch);
    if (why.empty())
      set.add(wanted);
    else
      run.pictures[wanted.name].missing = why;
  }
  if (set.pictures.empty()) return;
  Thumbnails thumbnails;
  for (const SurveyedPicture& picture : set.pictures) thumbnails.want(picture);
  thumbnails.read(std::span(&set.survey, 1), {.opener = input.opener, .stop = input.stop});
  for (std::size_t i = 0; i < set.names.size(); ++i) {
    DrawnPicture& drawn = run.pictures[set.names[i]];
    const Thumbnail* thumbnail = thumbnails.of(set.pictures[i]);
    drawn.missing = thumbnails.why_missing(set.pictures[i]);
    if (thumbnail != nullptr)
      drawn = {.width = thumbnail->width, .height = thumbnail->height, .base64 = thumbnail->base64};
  }
}

std::string inline_picture(std::string_view base64, int width, int height, std::string_view alt) {
  constexpr std::size_t kMostBytes = std::size_t{128} << 10;
  const std::string_view type = type_of(base64);
  if (type.empty() || base64.size() > kMostBytes || !is_base64(base64)) return {};
  return html::picture(type, base64, std::clamp(width, 1, 512), std::clamp(height, 1, 512),
                       type == "image/png", alt);
}

}  // namespace millrace::tools
