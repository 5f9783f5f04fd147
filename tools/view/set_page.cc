#include "tools/view/set_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "io/base/text.h"
#include "tools/report/chart.h"
#include "tools/report/html.h"
#include "tools/report/style.h"
#include "tools/view/set_page_style.h"

namespace millrace::tools {
namespace {

using html::escaped;
using html::section;
using html::tile;

// Of each list: drawn, then only named; pictures of a group.
constexpr std::size_t kMostShots = 24;
constexpr std::size_t kMostNamed = 400;
constexpr std::size_t kMostOfGroup = 6;
constexpr std::size_t kMostShards = 200;
constexpr std::size_t kMostFaults = 200;
constexpr std::size_t kMostReasons = 20;
constexpr std::size_t kMostClassBars = 40;

std::string whole(std::uint64_t count) { return std::to_string(count); }
double real(std::uint64_t count) { return static_cast<double>(count); }

template <typename T>
std::span<const T> first_of(const std::vector<T>& all, std::size_t most) {
  return std::span(all).first(std::min(all.size(), most));
}

/// What all shards' urls begin with, up to a slash.
std::string common_folder(const std::vector<SetSurvey>& surveys) {
  std::string folder = io::printable_url(surveys.front().shards.front().url);
  for (const SetSurvey& survey : surveys)
    for (const SurveyedShard& shard : survey.shards) {
      const std::string url = io::printable_url(shard.url);
      const auto [mine, theirs] = std::ranges::mismatch(folder, url);
      folder.erase(mine, folder.end());
    }
  const std::size_t slash = folder.rfind('/');
  return slash == std::string::npos ? "" : folder.substr(0, slash + 1);
}

/// Writes pictures with what is known of them.
class Shots {
 public:
  explicit Shots(const SetPage& page) : page_(page), folder_(common_folder(page.surveys)) {}

  const std::string& folder() const { return folder_; }

  std::string shard_name(const SurveyedShard& shard) const {
    return io::printable_url(shard.url).substr(folder_.size());
  }
  std::string class_name(std::int64_t label) const {
    const auto& names = page_.class_names;
    const bool named = label >= 0 && static_cast<std::uint64_t>(label) < names.size();
    return named ? names[static_cast<std::size_t>(label)] : fmt::format("class {}", label);
  }

  std::string grid(std::span<const SurveyedPicture* const> pictures,
                   const char* more_class = "") const {
    std::string text = fmt::format("<div class=\"shots{}\">\n", more_class);
    for (const SurveyedPicture* picture : pictures) text += shot(*picture);
    return text + "</div>\n";
  }
  /// Some drawn, some only named, the rest counted.
  std::string list(const PictureList& pictures) const {
    std::string text = grid(first_of(pictures, kMostShots));
    if (pictures.size() <= kMostShots) return text;
    const std::size_t named = std::min(pictures.size(), kMostNamed);
    text += "<p class=\"more\">Also: ";
    for (std::size_t i = kMostShots; i < named; ++i)
      text +=
          fmt::format("{}<code>{} {}</code>", i > kMostShots ? ", " : "",
                      escaped(shard_name(shard_of(*pictures[i]))), escaped(pictures[i]->member));
    if (pictures.size() > named) text += fmt::format(" and {} more", pictures.size() - named);
    return text + "</p>\n";
  }
  std::string groups(const std::vector<PictureList>& groups) const {
    std::string text;
    for (const PictureList& group : first_of(groups, kMostShots)) {
      text += grid(first_of(group, kMostOfGroup), " group");
      if (group.size() > kMostOfGroup)
        text +=
            fmt::format("<p class=\"more\">and {} more of them</p>\n", group.size() - kMostOfGroup);
    }
    if (groups.size() > kMostShots)
      text += fmt::format("<p class=\"more\">and {}</p>\n",
                          counted(groups.size() - kMostShots, "further group"));
    return text;
  }

 private:
  const SurveyedShard& shard_of(const SurveyedPicture& picture) const {
    return page_.surveys[picture.set].shards[picture.shard];
  }

  std::string shot(const SurveyedPicture& picture) const {
    const auto& [height, width] = picture.facts.size;
    const std::string label = picture.label ? class_name(*picture.label) : "";
    return fmt::format(
        "<figure class=\"shot\">{}<figcaption><b>{}</b><span>{}{}{} × {}, {}</span><span>{}</span>"
        "</figcaption></figure>\n",
        drawing(picture, label), escaped(picture.member), escaped(label), label.empty() ? "" : ", ",
        width, height, html::bytes(real(picture.bytes)), escaped(shard_name(shard_of(picture))));
  }
  std::string drawing(const SurveyedPicture& picture, const std::string& label) const {
    const Thumbnail* thumbnail = page_.thumbnails.of(picture);
    if (thumbnail == nullptr) return "<span class=\"none\">not drawn</span>";
    return html::picture("image/jpeg", thumbnail->base64, thumbnail->width, thumbnail->height,
                         false, picture.member + (label.empty() ? "" : ", " + label));
  }

  const SetPage& page_;
  std::string folder_;
};

// ---- histograms

std::string percent_of(std::uint64_t count, std::uint64_t all) {
  return html::percent(all == 0 ? 0 : real(count) / real(all));
}

std::string bar_chart(const std::string& title, const std::vector<Bar>& rows) {
  return fmt::format("<figure><figcaption>{}</figcaption>\n{}</figure>\n", escaped(title),
                     bars(rows, html::number, false));
}

Bar count_bar(const std::string& label, std::uint64_t count, std::uint64_t all) {
  return {.label = label,
          .parts = {{label, real(count), 0}},
          .end = fmt::format("{} ({})", count, percent_of(count, all))};
}

std::string bin_name(const Histogram& histogram, std::size_t bin, std::string (*text)(double)) {
  if (bin == 0) return "below " + text(histogram.edges.front());
  if (bin == histogram.edges.size()) return text(histogram.edges.back()) + " and more";
  return text(histogram.edges[bin - 1]) + " – " + text(histogram.edges[bin]);
}

/// From the first bin that counts something to the last one.
std::string chart_of(const std::string& title, const Histogram& histogram,
                     std::string (*text)(double)) {
  const auto& counts = histogram.counts;
  const auto counts_some = [](std::uint64_t count) { return count > 0; };
  const auto first = std::ranges::find_if(counts, counts_some);
  if (first == counts.end()) return {};
  std::uint64_t all = 0;
  std::size_t last = 0;
  for (std::size_t bin = 0; bin < counts.size(); ++bin) {
    all += counts[bin];
    if (counts[bin] > 0) last = bin;
  }
  std::vector<Bar> rows;
  for (auto bin = static_cast<std::size_t>(first - counts.begin()); bin <= last; ++bin)
    rows.push_back(count_bar(bin_name(histogram, bin, text), counts[bin], all));
  return bar_chart(title, rows);
}

std::string ratio_text(double ratio) { return fmt::format("{:.2f}", ratio); }

std::string common_sizes_chart(const SetSurvey& survey) {
  std::vector<Bar> rows;
  for (const auto& [size, images] : survey.stats.common_sizes(10))
    rows.push_back(
        count_bar(fmt::format("{} × {}", size.width, size.height), images, survey.stats.images));
  return rows.empty() ? "" : bar_chart("Most common sizes, width × height", rows);
}

std::string shapes_of(const SetSurvey& survey) {
  const std::string charts = common_sizes_chart(survey) +
                             chart_of("Longer side, in pixels", survey.sides, html::number) +
                             chart_of("Width over height", survey.aspects, ratio_text) +
                             chart_of("Bytes of a file", survey.sizes, html::bytes) +
                             chart_of("Mean grey level, 0 to 255", survey.levels, html::number);
  if (charts.empty()) return "<p>No sample has a picture.</p>\n";
  return "<div class=\"charts\">\n" + charts + "</div>\n";
}

/// Samples that have no field cls.
std::uint64_t without_class(const SetSurvey& survey) {
  std::uint64_t with = 0;
  for (const auto& [label, count] : survey.stats.classes) with += count;
  return survey.stats.samples - std::min(with, survey.stats.samples);
}

std::string classes_of_set(const SetSurvey& survey, const Shots& shots) {
  std::vector<std::pair<std::int64_t, std::uint64_t>> classes(survey.stats.classes.begin(),
                                                              survey.stats.classes.end());
  if (classes.empty()) return {};
  const auto count_of_class = [](const auto& one) { return one.second; };
  if (classes.size() > kMostClassBars)
    std::ranges::stable_sort(classes, std::greater(), count_of_class);
  std::vector<Bar> rows;
  for (const auto& [label, count] : first_of(classes, kMostClassBars))
    rows.push_back(count_bar(shots.class_name(label), count, survey.stats.samples));
  if (const std::uint64_t none = without_class(survey); none > 0)
    rows.push_back(count_bar("no class", none, survey.stats.samples));
  const auto [least, most] = std::ranges::minmax(classes, {}, count_of_class);
  return fmt::format("<p>{}, of {} to {}.{}</p>\n", counted(classes.size(), "class"), least.second,
                     counted(most.second, "sample"),
                     classes.size() > kMostClassBars
                         ? fmt::format(" The {} largest:", kMostClassBars)
                         : "") +
         bars(rows, html::number, false);
}

std::string shards_table_of(const SetSurvey& survey, const Shots& shots) {
  std::vector<std::vector<std::string>> rows;
  for (const SurveyedShard& shard : first_of(survey.shards, kMostShards)) {
    const double pictures = real(std::max<std::uint64_t>(1, shard.pictures));
    rows.push_back({"<code>" + escaped(shots.shard_name(shard)) + "</code>", whole(shard.samples),
                    whole(shard.pictures), html::bytes(real(shard.bytes)),
                    html::bytes(real(shard.bytes) / pictures), whole(shard.classes),
                    whole(shard.broken)});
  }
  std::string text = html::table({{"shard"},
                                  {"samples", true},
                                  {"pictures", true},
                                  {"bytes", true},
                                  {"bytes/picture", true},
                                  {"classes", true},
                                  {"broken", true}},
                                 rows);
  if (survey.shards.size() > kMostShards)
    text += fmt::format("<p class=\"soft\">and {} more</p>\n", survey.shards.size() - kMostShards);
  return text;
}

// ---- findings

std::string sampled_text(const SetPage& page) {
  const auto sampled = std::ranges::max(page.surveys, {}, &SetSurvey::sampled_bits);
  if (sampled.sampled_bits == 0) return {};
  return fmt::format(
      "<p class=\"soft\">Looked for among one file of {}, chosen by the bytes' digest: all copies "
      "of "
      "a file are among them, or none.</p>\n",
      std::uint64_t{1} << sampled.sampled_bits);
}

std::string groups_text(const char* title, const std::string& none,
                        const std::vector<PictureList>& groups, const Shots& shots) {
  const std::string heading = fmt::format("<h3>{}</h3>\n", title);
  if (groups.empty()) return heading + "<p>" + none + "</p>\n";
  std::size_t pictures = 0;
  for (const PictureList& group : groups) pictures += group.size();
  return heading +
         fmt::format("<p>{} in {}.</p>\n", counted(pictures, "picture"),
                     counted(groups.size(), "group")) +
         shots.groups(groups);
}

std::string duplicates_of(const SetPage& page, const Shots& shots) {
  return sampled_text(page) +
         groups_text("The same bytes, of different classes", "None.", page.contradicting, shots) +
         groups_text("The same bytes", "None.", page.copies, shots) +
         groups_text("Alike, of other bytes", "None.", page.alike, shots);
}

std::string leaks_of(const SetPage& page, const Shots& shots) {
  return fmt::format("<p>Pictures of <code>{}</code> that are also in <code>{}</code>.</p>\n",
                     escaped(page.specs[0]), escaped(page.specs[1])) +
         sampled_text(page) + groups_text("The same bytes", "None.", page.leaked_copies, shots) +
         groups_text("Alike, of other bytes", "None.", page.leaked_alike, shots);
}

std::string outliers_of(const SetPage& page, const Shots& shots) {
  std::string text = sampled_text(page);
  for (const Outliers& kind : page.outliers) {
    text += fmt::format("<h3>{}: {}</h3>\n<p class=\"soft\">{}</p>\n", escaped(kind.name),
                        kind.pictures.size(), escaped(kind.definition));
    if (!kind.pictures.empty()) text += shots.list(kind.pictures);
  }
  return text;
}

std::string where_text(const Where& where) {
  const std::string name = where.member.empty() ? where.key : where.member;
  return name.empty() ? "–" : "<code>" + escaped(printable(name, 200)) + "</code>";
}

/// What training on pictures would lose of sets that can be read.
std::string pictureless_of(const SetPage& page) {
  std::uint64_t all = 0;
  std::string keys;
  std::size_t named = 0;
  for (const SetSurvey& survey : page.surveys) {
    all += survey.num_pictureless;
    for (const PicturelessSample& sample : survey.pictureless)
      if (named++ < SetSurvey::kMostPictureless)
        keys += fmt::format("{}<code>{} {}</code>", named > 1 ? ", " : "",
                            escaped(io::printable_url(survey.shards[sample.shard].url)),
                            escaped(sample.key));
  }
  if (all == 0) return {};
  const std::uint64_t listed = std::min<std::uint64_t>(named, SetSurvey::kMostPictureless);
  return fmt::format("<p>{} without a picture, which training would lose: {}{}</p>\n",
                     counted(all, "sample"), keys,
                     all > listed ? fmt::format(" and {} more", all - listed) : "");
}

std::string broken_of(const SetPage& page) {
  std::vector<std::vector<std::string>> rows;
  std::uint64_t broken = 0;
  std::size_t faults = 0;
  for (const SetSurvey& survey : page.surveys) {
    broken += survey.broken;
    faults += survey.faults.size();
    for (const auto& fault : survey.faults)
      if (rows.size() < kMostFaults)
        rows.push_back({"<code>" + escaped(io::printable_url(fault.where.url)) + "</code>",
                        where_text(fault.where),
                        fault.where.offset ? whole(*fault.where.offset) : "–",
                        escaped(printable(fault.message, 400)),
                        whole(fault.samples) + (fault.more ? " or more" : "")});
  }
  const std::string pictureless = pictureless_of(page);
  if (rows.empty() && pictureless.empty())
    return "<p>None: every sample could be read, has a picture, and that could be decoded.</p>\n";
  if (rows.empty()) return pictureless;
  return pictureless +
         fmt::format(
             "<p>{} could not be read or decoded{}</p>\n", counted(broken, "sample"),
             faults > rows.size() ? fmt::format("; the first {} faults:", rows.size()) : ":") +
         html::table({{"shard"}, {"member"}, {"offset", true}, {"why"}, {"samples", true}}, rows);
}

// ---- the page

std::string page_tiles(const SetPage& page) {
  const SetSurvey& set = page.surveys.front();
  std::string all = "<dl class=\"tiles\">";
  all += tile("samples", whole(set.samples()), counted(set.shards.size(), "shard"));
  all +=
      tile("pictures", whole(set.num_pictures()), html::bytes(real(set.bytes())) + " of samples");
  const std::uint64_t none = without_class(set);
  all += tile("classes", whole(set.stats.classes.size()),
              none == 0                   ? "by the field cls"
              : set.stats.classes.empty() ? "no sample has the field cls"
                                          : counted(none, "sample") + " without the field cls");
  all += tile("broken", whole(set.broken),
              set.num_pictureless == 0
                  ? "samples"
                  : "samples; " + counted(set.num_pictureless, "other") + " without a picture");
  all += tile("same bytes", whole(surplus(page.copies)),
              page.contradicting.empty()
                  ? "copies of another picture"
                  : "copies of another picture; " + counted(page.contradicting.size(), "picture") +
                        " of different classes");
  all += tile("alike", whole(surplus(page.alike)), "copies of another, of other bytes");
  if (page.has_two_sets())
    all += tile("in both sets", whole(page.leaked_copies.size()),
                fmt::format("and {} alike", page.leaked_alike.size()));
  return all + "</dl>\n";
}

std::string page_head(const SetPage& page, const Shots& shots, const std::string& links) {
  std::string text = fmt::format("<header>\n<h1>{}</h1>\n", escaped(page.specs.front()));
  if (page.has_two_sets())
    text += fmt::format("<p class=\"soft\">compared with <code>{}</code>: {}</p>\n",
                        escaped(page.specs[1]), counted(page.surveys[1].samples(), "sample"));
  if (!shots.folder().empty())
    text += fmt::format("<p class=\"soft\">Shards are in <code>{}</code></p>\n",
                        escaped(shots.folder()));
  return text + page_tiles(page) + "<nav aria-label=\"Parts of this page\">" + links +
         "</nav>\n</header>\n";
}

/// Of all pictures that the page would show.
std::string missing_of(const Thumbnails& thumbnails) {
  if (thumbnails.num_missing() == 0) return {};
  std::string text = fmt::format(
      "<p>{} of this page {} not drawn, because they could not be read a "
      "second time:</p>\n<ul>\n",
      counted(thumbnails.num_missing(), "picture"), thumbnails.num_missing() == 1 ? "is" : "are");
  std::size_t named = 0;
  for (const auto& [why, count] : thumbnails.missing())
    if (++named <= kMostReasons)
      text += fmt::format("<li>{}: {}</li>\n", count, escaped(printable(why, 400)));
  if (named > kMostReasons)
    text += fmt::format("<li>and {}</li>\n", counted(named - kMostReasons, "further reason"));
  return text + "</ul>\n";
}

std::string grid_of(const SetPage& page, const Shots& shots) {
  if (page.grid.empty()) return "<p>There is no picture.</p>\n";
  return fmt::format("<p>{} of {}, evenly through the set.</p>\n", page.grid.size(),
                     counted(page.surveys.front().num_pictures(), "picture")) +
         missing_of(page.thumbnails) + shots.grid(page.grid);
}

/// Sections, and links to them.
struct PageBody {
  std::string links = {};
  std::string sections = {};

  void add(const char* id, const char* title, const std::string& content) {
    if (content.empty()) return;
    links += fmt::format("<a href=\"#{}\">{}</a>", id, title);
    sections += section(id, title, content);
  }
};

}  // namespace

std::size_t surplus(const std::vector<PictureList>& groups) {
  std::size_t sum = 0;
  for (const PictureList& group : groups) sum += group.size() - 1;
  return sum;
}

void find_what_to_show(SetPage& page, std::size_t count) {
  const PictureList both = pictures_of(page.surveys);
  PictureList own = both;
  std::erase_if(own, [](const SurveyedPicture* picture) { return picture->set != 0; });
  for (std::size_t i = 0; i < std::min(count, own.size()); ++i)
    page.grid.push_back(own[i * own.size() / std::min(count, own.size())]);
  page.copies = same_files(own);
  page.contradicting = of_several_classes(page.copies);
  page.alike = look_alikes(own);
  page.outliers = outliers(own);
  if (!page.has_two_sets()) return;
  page.leaked_copies = in_both_sets(same_files(both));
  page.leaked_alike = in_both_sets(look_alikes(both));
}

void read_page_thumbnails(SetPage& page, const ThumbnailInput& input) {
  for (const SurveyedPicture* picture : page.grid) page.thumbnails.want(*picture);
  for (const auto* groups :
       {&page.contradicting, &page.copies, &page.alike, &page.leaked_copies, &page.leaked_alike})
    for (const PictureList& group : first_of(*groups, kMostShots))
      for (const SurveyedPicture* picture : first_of(group, kMostOfGroup))
        page.thumbnails.want(*picture);
  for (const Outliers& kind : page.outliers)
    for (const SurveyedPicture* picture : first_of(kind.pictures, kMostShots))
      page.thumbnails.want(*picture);
  page.thumbnails.read(page.surveys, input);
}

std::string set_page(const SetPage& page) {
  const Shots shots(page);
  const SetSurvey& set = page.surveys.front();
  PageBody body;
  body.add("pictures", "Pictures", grid_of(page, shots));
  body.add("shapes", "Sizes and light", shapes_of(set));
  body.add("classes", "Classes", classes_of_set(set, shots));
  body.add("duplicates", "Duplicates", duplicates_of(page, shots));
  if (page.has_two_sets()) body.add("leaks", "In both sets", leaks_of(page, shots));
  body.add("outliers", "Unlike the others", outliers_of(page, shots));
  body.add("broken", "Broken samples", broken_of(page));
  body.add("shards", "Shards", shards_table_of(set, shots));
  return html::document(page.specs.front(), report_style() + kSetPageStyle,
                        page_head(page, shots, body.links) + "<main>\n" + body.sections +
                            "</main>\n<footer>\n<p><code>millrace cat SHARD MEMBER &gt; "
                            "FILE</code> writes a picture, by "
                            "the names below it. Drawn by millrace view --html.</p>\n</footer>\n");
}

}  // namespace millrace::tools
