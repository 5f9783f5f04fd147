#include "tools/report/evaluation.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include "io/base/text.h"
#include "tools/report/chart.h"
#include "tools/report/gallery.h"
#include "tools/report/html.h"
#include "tools/report/style.h"
#include "tools/shell_word.h"
#include "tools/view/set_page_style.h"

namespace millrace::tools {
namespace {

using html::escaped;

constexpr std::size_t kMostClassRows = 1000;
constexpr std::size_t kMostMatrixSide = 30;
constexpr std::size_t kMostOfGallery = 24;
constexpr std::size_t kBins = 15;

const RecordJson& array_in(const RecordJson& json, const char* name) {
  static const RecordJson kNone = RecordJson::array();
  const auto found = json.is_object() ? json.find(name) : json.end();
  return json.is_object() && found != json.end() && found->is_array() ? *found : kNone;
}

/// Whole numbers of a list that has at least so many; empty: it has not.
std::vector<double> numbers(const RecordJson& list, std::size_t least) {
  std::vector<double> all;
  if (!list.is_array() || list.size() < least) return all;
  for (const RecordJson& one : list) {
    const double value = one.is_number() ? one.get<double>() : -1;
    if (!(value >= 0 && value < 1e18)) return {};
    all.push_back(value);
  }
  return all;
}

std::string share_of(double part, double whole) {
  return whole > 0 ? html::percent(part / whole) : "–";
}

/// An evaluation's JSON with what its numbers are called.
class Evaluation {
 public:
  explicit Evaluation(const RunRecord& run)
      : run_(run), json_(run.evaluation), kind_(text_in(json_, "kind")) {}

  bool has_details() const { return kind_ == "classes" || kind_ == "labels" || kind_ == "masks"; }
  std::string text() const {
    return said() + matrix() + pairs() + class_table() + calibration() +
           gallery("Worst " + std::string(kind_ == "masks" ? "masks: picture, mask, predicted mask"
                                                           : "losses"),
                   "worst") +
           gallery("Most confident mistakes", "mistakes");
  }

 private:
  std::string name(double number) const {
    const RecordJson& names = array_in(json_, "names");
    const auto at = static_cast<std::size_t>(std::clamp(number, 0.0, 1e9));
    return at < names.size() && names[at].is_string() ? names[at].get<std::string>()
                                                      : fmt::format("{}", at);
  }

  std::string said() const {
    const double right = number_in(json_, "right").value_or(0);
    const double counted = number_in(json_, "counted").value_or(0);
    const auto epoch = number_in(json_, "epoch");
    const char* of = kind_ == "masks" ? "pixels" : "labels";
    const std::string whole = kind_ == "classes"
                                  ? ", of which"
                                  : fmt::format("; of their {} {}", html::number(counted), of);
    return fmt::format("<p>{}{:.0f} samples{} {} were predicted right: {}.</p>\n",
                       epoch ? fmt::format("Epoch {:.0f}: ", *epoch) : "",
                       number_in(json_, "samples").value_or(0), whole, html::number(right),
                       share_of(right, counted));
  }

  /// Rows are shaded by the share of their class, so that a rare class is seen as well.
  std::string matrix() const {
    const RecordJson& rows = array_in(json_, "confusion");
    if (rows.empty() || rows.size() > kMostMatrixSide) return {};
    std::string text =
        "<h3>Confusion</h3>\n<p>Rows are what samples are, columns what they were taken for; "
        "shades are shares of the row.</p>\n"
        "<div class=\"scroll\" tabindex=\"0\"><table class=\"confusion\"><thead><tr><th "
        "scope=\"col\">is \\ taken for</th>";
    text += column_heads(rows.size()) + "</tr></thead><tbody>\n";
    for (std::size_t i = 0; i < rows.size(); ++i) text += matrix_row(i, rows[i]);
    return text + "</tbody></table></div>\n";
  }
  /// Names stand upright, unless all are short, so that the cells are squares.
  std::string column_heads(std::size_t count) const {
    constexpr std::size_t kShort = 3;
    std::vector<std::string> names;
    for (std::size_t i = 0; i < count; ++i) names.push_back(name(static_cast<double>(i)));
    const bool is_long =
        std::ranges::any_of(names, [](const std::string& one) { return one.size() > kShort; });
    std::string text;
    for (const std::string& one : names)
      text += fmt::format("<th scope=\"col\"{}>{}</th>", is_long ? " class=\"long\"" : "",
                          escaped(one));
    return text;
  }
  std::string matrix_row(std::size_t number, const RecordJson& row) const {
    const std::vector<double> counts = numbers(row, 1);
    double sum = 0;
    for (const double count : counts) sum += count;
    std::string text =
        fmt::format("<tr><th scope=\"row\">{}</th>", escaped(name(static_cast<double>(number))));
    for (std::size_t i = 0; i < std::min(counts.size(), kMostMatrixSide); ++i) {
      const double share = sum > 0 ? counts[i] / sum : 0;
      const int shade = share > 0 ? std::clamp(static_cast<int>(std::ceil(share * 9)), 1, 9) : 0;
      text += fmt::format("<td class=\"n s{}{}\">{}</td>", shade, i == number ? " same" : "",
                          html::number(counts[i]));
    }
    return text + "</tr>\n";
  }

  std::string pairs() const {
    std::vector<std::vector<std::string>> cells;
    for (const RecordJson& pair : array_in(json_, "confused")) {
      const std::vector<double> of = numbers(pair, 3);
      if (of.empty() || cells.size() == 50) continue;
      cells.push_back({escaped(name(of[0])), escaped(name(of[1])), html::number(of[2])});
    }
    if (cells.empty()) return {};
    return "<h3>Most frequent confusions</h3>\n" +
           html::table({{"is"}, {"was taken for"}, {"samples", true}}, cells);
  }

  struct Row {
    double number = 0;
    double wanted = 0;
    double predicted = 0;
    double both = 0;

    double recall() const { return wanted > 0 ? both / wanted : 2; }
  };

  std::string class_table() const {
    std::vector<Row> rows;
    for (const RecordJson& one : array_in(json_, "by_class"))
      if (const auto of = numbers(one, 4); !of.empty() && rows.size() < kMostClassRows)
        rows.push_back({of[0], of[1], of[2], of[3]});
    std::erase_if(rows, [](const Row& row) { return row.wanted == 0 && row.predicted == 0; });
    std::ranges::stable_sort(rows, {}, &Row::recall);
    std::vector<std::vector<std::string>> cells;
    for (const Row& row : rows)
      cells.push_back({escaped(name(row.number)), html::number(row.wanted),
                       share_of(row.both, row.wanted), share_of(row.both, row.predicted),
                       share_of(row.both, row.wanted + row.predicted - row.both)});
    if (cells.empty()) return {};
    const std::string what = kind_ == "labels" ? "label" : "class";
    return fmt::format("<h3>Each {}, the least found first</h3>\n", what) +
           html::table({{what},
                        {kind_ == "masks" ? "pixels" : "samples", true},
                        {"found (recall)", true},
                        {"right where said (precision)", true},
                        {"IoU", true}},
                       cells);
  }

  struct Bin {
    double count = 0;
    double right = 0;
    double mean = 0;

    double share() const { return count > 0 ? right / count : 0; }
  };
  std::vector<Bin> bins() const {
    std::vector<Bin> all;
    const auto calibration = json_.find("calibration");
    if (calibration == json_.end()) return all;
    for (const RecordJson& one : array_in(*calibration, "bins"))
      if (const auto of = numbers(one, 3); !of.empty() && of[2] <= 1 && of[1] <= of[0])
        all.push_back({of[0], of[1], of[2]});
    if (all.size() != kBins) all.clear();
    return all;
  }

  std::string calibration() const {
    const std::vector<Bin> all = bins();
    const auto error = all.empty() ? std::nullopt : number_in(json_.at("calibration"), "error");
    if (!error) return {};
    const bool is_labels = kind_ == "labels";
    std::vector<std::vector<std::string>> cells;
    for (std::size_t i = 0; i < all.size(); ++i)
      if (all[i].count > 0)
        cells.push_back({bin_name(i), html::number(all[i].count), html::percent(all[i].mean),
                         html::percent(all[i].share())});
    const char* seen = is_labels ? "label holds" : "right";
    return fmt::format(
               "<h3>Reliability</h3>\n<p>What was predicted with a probability of p should be {} "
               "with frequency p: the line. Expected calibration error: {}.</p>\n"
               "<div class=\"charts\"><figure class=\"square\"><figcaption>How often {}, by the "
               "probability "
               "said</figcaption>\n{}</figure>\n<div>",
               is_labels ? "so" : "right", html::percent(*error),
               is_labels ? "a label holds" : "a prediction is right",
               reliability_svg(all, *error)) +
           html::table({{"probability"}, {"predictions", true}, {"mean said", true}, {seen, true}},
                       cells) +
           "</div></div>\n";
  }
  static std::string bin_name(std::size_t bin) {
    constexpr double kPercent = 100.0 / kBins;
    return fmt::format("{:.0f} to {:.0f} %", kPercent * static_cast<double>(bin),
                       kPercent * static_cast<double>(bin + 1));
  }

  static std::string reliability_svg(const std::vector<Bin>& all, double error) {
    constexpr double kPlot = 240;
    constexpr double kAxis = 56;
    constexpr double kAbove = 10;
    constexpr double kBar = kPlot / kBins;
    const auto down = [](double share) { return kAbove + (1 - share) * kPlot; };
    std::string svg = fmt::format(
        "<svg viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"Reliability: expected calibration "
        "error {}; the table has the numbers.\">",
        kAxis + kPlot + 14, kAbove + kPlot + 32, html::percent(error));
    for (const double tick : {0.0, 0.25, 0.5, 0.75, 1.0})
      svg += fmt::format(
          "<line class=\"grid\" x1=\"{0}\" x2=\"{1}\" y1=\"{2:.1f}\" y2=\"{2:.1f}\"/>"
          "<text class=\"tick\" x=\"{3}\" y=\"{4:.1f}\" text-anchor=\"end\">{5:.0f} %</text>"
          "<text class=\"tick\" x=\"{6:.1f}\" y=\"{7}\" text-anchor=\"middle\">{5:.0f}</text>",
          kAxis, kAxis + kPlot, down(tick), kAxis - 6, down(tick) + 4, 100 * tick,
          kAxis + tick * kPlot, kAbove + kPlot + 20);
    for (std::size_t i = 0; i < all.size(); ++i)
      if (all[i].count > 0)
        svg += fmt::format(
            "<line class=\"reliable\" x1=\"{0:.1f}\" x2=\"{0:.1f}\" y1=\"{1:.1f}\" "
            "y2=\"{2:.1f}\"/>",
            kAxis + (static_cast<double>(i) + 0.5) * kBar, down(0), down(all[i].share()));
    return svg + fmt::format("<path class=\"curve c1\" d=\"M{:.1f},{:.1f}L{:.1f},{:.1f}\"/></svg>",
                             kAxis, down(0), kAxis + kPlot, down(1));
  }

  // ---- galleries

  std::string gallery(const std::string& title, const char* list) const {
    std::string shots;
    std::size_t count = 0;
    for (const RecordJson& sample : array_in(json_, list)) {
      if (count++ == kMostOfGallery) break;
      shots += shot(sample);
    }
    if (shots.empty()) return {};
    return fmt::format("<h3>{}</h3>\n<div class=\"shots{}\">\n{}</div>\n", title,
                       kind_ == "masks" ? " triples" : "", shots);
  }

  std::string shot(const RecordJson& sample) const {
    const std::string key = text_in(sample, "key");
    std::string pictures = stored(sample, key);
    if (kind_ == "masks")
      pictures = "<div class=\"triple\">" + pictures + mask(sample, "wanted", "mask of " + key) +
                 mask(sample, "found", "predicted mask of " + key) + "</div>";
    return fmt::format(
        "<figure class=\"shot\">{}<figcaption><b>{}</b><span>{}</span>{}"
        "</figcaption></figure>\n",
        pictures, escaped(key), escaped(judgement(sample)), command(sample));
  }
  std::string stored(const RecordJson& sample, const std::string& key) const {
    const auto found = run_.pictures.find(picture_name(sample));
    if (found == run_.pictures.end())
      return "<span class=\"none\">where it is, is not known</span>";
    const DrawnPicture& picture = found->second;
    const std::string drawn = inline_picture(picture.base64, picture.width, picture.height, key);
    return drawn.empty()
               ? fmt::format("<span class=\"none\">not drawn: {}</span>", escaped(picture.missing))
               : drawn;
  }
  static std::string mask(const RecordJson& sample, const char* which, const std::string& alt) {
    constexpr int kMaskSide = 96;
    return inline_picture(text_in(sample, which), kMaskSide, kMaskSide, alt);
  }

  std::string judgement(const RecordJson& sample) const {
    const double label = number_in(sample, "label").value_or(-1);
    const double predicted = number_in(sample, "predicted").value_or(-1);
    const std::string sure = html::percent(number_in(sample, "probability").value_or(0));
    const std::string loss = html::number(number_in(sample, "loss").value_or(0));
    if (kind_ == "masks") return sure + " of its pixels are right";
    if (kind_ == "labels" && label < 0) return "loss " + loss + ", all labels right";
    if (kind_ == "labels")
      return fmt::format("{} {}, {}; loss {}", predicted > 0 ? "said to be" : "said not to be",
                         name(label), sure, loss);
    return fmt::format("{}, taken for {}, {}; loss {}", name(label), name(predicted), sure, loss);
  }
  /// For a shell, whatever is in the names.
  static std::string command(const RecordJson& sample) {
    if (picture_name(sample).empty()) return {};
    return fmt::format("<code>millrace cat {} {}</code>",
                       escaped(shown_shell_word(text_in(sample, "shard"))),
                       escaped(shown_shell_word(text_in(sample, "member"))));
  }

  const RunRecord& run_;
  const RecordJson& json_;
  std::string kind_;
};

constexpr const char* kEvaluationStyle = R"css(
.confusion{min-width:0;font-size:.82rem}
.confusion th,.confusion td{padding:5px 8px;border:1px solid var(--line);white-space:nowrap}
.confusion td{width:3.1em;min-width:3.1em;height:3.1em;padding:0 2px;text-align:center;vertical-align:middle}
.confusion th[scope=row]{vertical-align:middle}
.confusion thead th{vertical-align:bottom}
.confusion thead th+th{text-align:center}
.confusion thead th.long{writing-mode:vertical-rl;transform:rotate(180deg);padding:8px 5px;text-align:left}
.confusion tr:last-child td{border-bottom:1px solid var(--line)}
.confusion td.same{font-weight:700}
.confusion .s1{background:color-mix(in srgb,var(--c0) 6%,var(--card))}
.confusion .s2{background:color-mix(in srgb,var(--c0) 11%,var(--card))}
.confusion .s3{background:color-mix(in srgb,var(--c0) 16%,var(--card))}
.confusion .s4{background:color-mix(in srgb,var(--c0) 21%,var(--card))}
.confusion .s5{background:color-mix(in srgb,var(--c0) 26%,var(--card))}
.confusion .s6{background:color-mix(in srgb,var(--c0) 31%,var(--card))}
.confusion .s7{background:color-mix(in srgb,var(--c0) 36%,var(--card))}
.confusion .s8{background:color-mix(in srgb,var(--c0) 41%,var(--card))}
.confusion .s9{background:color-mix(in srgb,var(--c0) 46%,var(--card))}
.reliable{stroke:var(--c0);stroke-width:13;opacity:.75}
.square svg{max-width:460px}
.shots.triples{grid-template-columns:repeat(auto-fill,minmax(min(100%,300px),1fr))}
.triple{display:grid;grid-template-columns:repeat(3,1fr);gap:4px}
.shot code{display:block;font-size:.72rem;margin-top:2px}
)css";

}  // namespace

std::string evaluation_of(const RunRecord& run) {
  if (!run.evaluation.is_object()) return {};
  const Evaluation evaluation(run);
  return evaluation.has_details()
             ? evaluation.text()
             : "<p>The evaluation kept nothing of single samples: its devices did not bring their "
               "outputs to the host, or its task has no classes.</p>\n";
}

std::string first_batch_of(const RunRecord& run) {
  std::string shots;
  std::size_t count = 0;
  for (const RecordJson& one : array_in(run.first_batch, "pictures")) {
    if (count++ == kMostOfGallery) break;
    const std::string key = text_in(one, "key");
    const auto side = [&](const char* name) {
      return static_cast<int>(std::clamp(number_in(one, name).value_or(1), 1.0, 512.0));
    };
    const std::string picture =
        inline_picture(text_in(one, "jpeg"), side("width"), side("height"), key);
    if (picture.empty()) continue;
    shots += fmt::format("<figure class=\"shot\">{}<figcaption>{}</figcaption></figure>\n", picture,
                         escaped(key));
  }
  if (shots.empty()) return {};
  return "<p>Of the first batch that the run's first process trained on, cropped, flipped and "
         "changed as the model was given it.</p>\n<div class=\"shots\">\n" +
         shots + "</div>\n";
}

std::string evaluation_page(const RunRecord& run, const std::string& measures) {
  return html::document(
      run.name, evaluation_style(),
      fmt::format("<header>\n<h1>{}</h1>\n<p class=\"soft\">{}</p>\n</header>\n<main>\n",
                  escaped(run.name), escaped(measures)) +
          html::section("evaluation", "What the evaluation found", evaluation_of(run)) +
          "</main>\n<footer>\n<p>Drawn by millrace eval.</p>\n</footer>\n");
}

std::string evaluation_style() { return report_style() + kSetPageStyle + kEvaluationStyle; }

}  // namespace millrace::tools
